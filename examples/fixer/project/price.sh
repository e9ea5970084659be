# price NET RATE: the price with tax, in cents
price() {
  echo $(($1 + $1 * $2 / 10))
}
