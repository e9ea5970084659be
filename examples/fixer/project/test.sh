. ./price.sh
check() {
  if [ "$1" = "$2" ]; then echo "ok   $3"; else echo "FAIL $3: expected $2, got $1"; failed=1; fi
}
check "$(price 1000 0)" 1000 "no tax"
check "$(price 1000 19)" 1190 "19 percent"
exit ${failed:-0}
