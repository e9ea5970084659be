# harn in an image of its own: the static binary and the certificates that HTTPS needs, nothing else.
#
#   docker build --tag harn .
#   docker run --rm --volume "$PWD:/work" harn run program.harn
FROM rust:1-alpine AS build
RUN apk add --no-cache musl-dev make ca-certificates
WORKDIR /source
COPY . .
RUN RUSTFLAGS="$(make --silent rustflags)" cargo build --locked --profile dist --package harn-cli && cp target/dist/harn /harn

FROM scratch
COPY --from=build /harn /bin/harn
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
WORKDIR /work
ENTRYPOINT ["/bin/harn"]
