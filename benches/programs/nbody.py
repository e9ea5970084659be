import sys
from math import sqrt


def run(n):
    m = [39.478, 0.0377, 0.0113, 0.0017, 0.0020]
    x = [0.0, 4.84, 8.34, 12.89, 15.38]
    y = [0.0, -1.16, 4.12, -15.11, -25.92]
    z = [0.0, -0.10, -0.40, -0.22, 0.18]
    vx = [0.0, 0.606, -1.011, 1.083, 0.979]
    vy = [0.0, 2.812, 1.826, 0.869, 0.594]
    vz = [0.0, -0.025, 0.008, -0.011, -0.035]
    for _ in range(n):
        for i in range(5):
            for j in range(i + 1, 5):
                dx = x[i] - x[j]
                dy = y[i] - y[j]
                dz = z[i] - z[j]
                d2 = dx * dx + dy * dy + dz * dz
                mag = 0.001 / (d2 * sqrt(d2))
                vx[i] -= dx * m[j] * mag
                vy[i] -= dy * m[j] * mag
                vz[i] -= dz * m[j] * mag
                vx[j] += dx * m[i] * mag
                vy[j] += dy * m[i] * mag
                vz[j] += dz * m[i] * mag
        for i in range(5):
            x[i] += vx[i] * 0.001
            y[i] += vy[i] * 0.001
            z[i] += vz[i] * 0.001
    return int(x[1] * 1000000.0) + int(y[2] * 1000000.0) + int(vz[4] * 1000000.0)


print(run(int(sys.argv[1])))
