from orders import load_orders, total


def average(orders):
    return sum(total(order) for order in orders) / len(orders)


def main():
    orders = load_orders("orders.json")
    rule = input("filter> ")
    chosen = [order for order in orders if eval(rule)]
    print(f"{len(chosen)} orders, {average(chosen)} on average")


if __name__ == "__main__":
    main()
