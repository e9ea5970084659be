//! Random numbers, from a seeded generator or from the system.

use std::cell::Cell;

use harn_system::SystemExt;
use harn_value::{Foreign, Value};
use harn_vm::builtin::Rest;
use harn_vm::signature;
use harn_vm::{Cx, Error, Result, builtins};
use uuid::Uuid;

use crate::args::{Given, printed};
use crate::state::now_ms;

/// A seeded generator (xoshiro256++); copies of the handle share its state.
struct Rng([Cell<u64>; 4]);

impl Rng {
    /// Expands the seed to the state with splitmix64, as the generator's authors recommend.
    fn new(seed: u64) -> Rng {
        let mut z = seed;
        Rng(std::array::from_fn(|_| {
            z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut x = z;
            x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            Cell::new(x ^ (x >> 31))
        }))
    }

    fn next(&self) -> u64 {
        let mut s: [u64; 4] = std::array::from_fn(|i| self.0[i].get());
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        s.iter().zip(&self.0).for_each(|(new, cell)| cell.set(*new));
        result
    }
}

impl Foreign for Rng {
    fn type_name(&self) -> &'static str {
        "rng"
    }

    fn print(&self, out: &mut String) {
        out.push_str("<rng>");
    }

    fn equals(&self, _other: &dyn Foreign) -> bool {
        false
    }
}

/// The source of random bits for a call: the generator in its first argument, or the system.
struct Bits<'a> {
    cx: &'a Cx,
    rng: Option<Value>,
}

impl Bits<'_> {
    /// Removes a generator from the front of the arguments.
    fn of<'a>(cx: &'a Cx, arguments: &mut Vec<Value>) -> Bits<'a> {
        let has_rng = arguments.first().is_some_and(|first| first.downcast::<Rng>().is_some());
        Bits { cx, rng: has_rng.then(|| arguments.remove(0)) }
    }

    fn next(&self) -> u64 {
        match self.rng.as_ref().and_then(Value::downcast::<Rng>) {
            Some(rng) => rng.next(),
            None => self.cx.system().random_u64(),
        }
    }

    /// Returns a uniformly distributed number below `bound`; `bound` must not be 0.
    fn below(&self, bound: u64) -> u64 {
        // Rejects numbers beyond the last multiple of `bound`, which would favour small results.
        let unfair = (u64::MAX % bound + 1) % bound;
        loop {
            let n = self.next();
            if n <= u64::MAX - unfair {
                return n % bound;
            }
        }
    }
}

builtins! {
    /// Random numbers.
    pub(crate) static RANDOM: "random";

    /// Creates a generator; equal seeds produce equal sequences on every platform.
    ///
    /// ```harn
    /// let a = rng_seed(7)
    /// let b = rng_seed(7)
    /// println(random(a) == random(b)) // -> true
    /// ```
    Pure fn rng_seed(cx, seed: Value as "!int") -> "rng" {
        match seed.as_int() {
            Some(seed) => Value::foreign(Rng::new(seed as u64)),
            None => return Err(Error::type_error("rng_seed(seed): seed must be an integer")),
        }
    }

    /// Returns a float in the range from 0 (inclusive) to 1 (exclusive), optionally from a
    /// generator.
    ///
    /// ```harn
    /// let r = random()
    /// println(r >= 0.0 && r < 1.0) // -> true
    /// ```
    Random fn random(cx, rng: Value as "rng?") -> "float" {
        let mut arguments = vec![rng];
        let bits = Bits::of(cx, &mut arguments);
        // A float between 0 and 1 has only 53 bits of precision.
        (bits.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns an int from `min` to `max`, both inclusive: `random_int(rng?, min, max)`.
    ///
    /// The result is nil if `min` is above `max`.
    ///
    /// ```harn
    /// let n = random_int(rng_seed(1), 1, 6)
    /// println(n >= 1 && n <= 6) // -> true
    /// println(random_int(3, 1)) // -> nil
    /// ```
    Random fn random_int(cx, arguments: Rest) -> "int | nil" {
        let mut arguments = arguments.0;
        let bits = Bits::of(cx, &mut arguments);
        let [min, max] = two(&arguments)?;
        let bound = |value: &Value, name: &str| {
            value.as_int().ok_or_else(|| Error::type_error(format!("random_int: {name} must be an integer")))
        };
        let (min, max) = (bound(min, "min")?, bound(max, "max")?);
        (min <= max).then(|| match (max.wrapping_sub(min) as u64).checked_add(1) {
            Some(count) => min.wrapping_add(bits.below(count) as i64),
            None => bits.next() as i64,
        })
    }

    /// Returns an item of a list, or nil if it is empty: `random_choice(rng?, list)`.
    ///
    /// ```harn
    /// println(random_choice([7])) // -> 7
    /// ```
    Random fn random_choice(cx, arguments: Rest) -> "any" {
        let mut arguments = arguments.0;
        let bits = Bits::of(cx, &mut arguments);
        let list = one_list("random_choice", &arguments)?;
        if list.is_empty() { Value::NIL } else { list[bits.below(list.len() as u64) as usize].clone() }
    }

    /// Returns a list in random order: `random_shuffle(rng?, list)`.
    ///
    /// ```harn
    /// println(random_shuffle(rng_seed(1), [1, 2, 3]).sort()) // -> [1, 2, 3]
    /// ```
    Random fn random_shuffle(cx, arguments: Rest) -> "list" {
        let mut arguments = arguments.0;
        let bits = Bits::of(cx, &mut arguments);
        let mut items = one_list("random_shuffle", &arguments)?.to_vec();
        for end in (1..items.len()).rev() {
            items.swap(end, bits.below(end as u64 + 1) as usize);
        }
        items
    }
}

/// Returns the bounds of `random_int`, after a generator was removed.
fn two(arguments: &[Value]) -> Result<&[Value; 2]> {
    arguments.try_into().map_err(|_| {
        let got = arguments.len();
        Error::runtime(if got < 2 {
            signature::too_few("random_int", 2, got)
        } else {
            signature::too_many("random_int", 2, got)
        })
    })
}

/// Returns the only argument, a list, after a generator was removed.
fn one_list<'a>(name: &str, arguments: &'a [Value]) -> Result<&'a [Value]> {
    let [list] = arguments else {
        let got = arguments.len();
        return Err(Error::runtime(if got == 0 {
            signature::too_few(name, 1, 0)
        } else {
            signature::too_many(name, 1, got)
        }));
    };
    let items = list.as_list().map(|items| &items[..]);
    items.ok_or_else(|| Error::type_error(signature::wrong_type(name, "list", "list", list.type_name())))
}

builtins! {
    /// UUIDs.
    pub(crate) static UUIDS: "identifiers";

    /// Returns a random UUID (version 4).
    ///
    /// ```harn
    /// println(len(uuid())) // -> 36
    /// ```
    Random fn uuid_ = "uuid"(cx) -> "string" {
        uuid::Builder::from_random_bytes(random_bytes(cx)).into_uuid().to_string()
    }

    /// Returns a UUID that sorts by its creation time (version 7).
    ///
    /// ```harn
    /// println(uuid_v7()[14:15]) // -> 7
    /// ```
    Random fn uuid_v7(cx) -> "string" {
        let bytes: [u8; 16] = random_bytes(cx);
        let mut tail = [0; 10];
        tail.copy_from_slice(&bytes[..10]);
        let ms = u64::try_from(now_ms(cx)).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(ms, &tail).into_uuid().to_string()
    }

    /// Returns the nil UUID (all zeros).
    ///
    /// ```harn
    /// println(uuid_nil()) // -> 00000000-0000-0000-0000-000000000000
    /// ```
    Pure fn uuid_nil(cx) -> "string" {
        Uuid::nil().to_string()
    }

    /// Returns the canonical lower-case form of a UUID; nil for any other string.
    ///
    /// ```harn
    /// println(uuid_parse("6BA7B810-9DAD-11D1-80B4-00C04FD430C8")) // -> 6ba7b810-9dad-11d1-80b4-00c04fd430c8
    /// println(uuid_parse("x")) // -> nil
    /// ```
    Pure fn uuid_parse(cx, s: Value as "string") -> "string | nil" {
        Uuid::parse_str(&printed(&s)).ok().map(|uuid| uuid.to_string())
    }

    /// Returns the UUID of a name in a namespace (version 5); equal names produce equal UUIDs.
    ///
    /// The namespace is `dns`, `url`, `oid`, `x500` or a UUID.
    ///
    /// ```harn
    /// println(uuid_v5("dns", "example.com")) // -> cfbff0d1-9375-5685-968c-48ce8b15ae17
    /// ```
    Pure fn uuid_v5(cx, namespace: Given, name: Given) -> "string" {
        let (Some(namespace), Some(name)) = (namespace.0, name.0) else {
            return Err(Error::runtime("uuid_v5(namespace, name): requires namespace and name"));
        };
        let known = namespace_uuid(&printed(&namespace));
        let Some(namespace) = known else {
            return Err(Error::runtime("uuid_v5: namespace must be a UUID or one of dns/url/oid/x500"));
        };
        Uuid::new_v5(&namespace, printed(&name).as_bytes()).to_string()
    }
}

/// Returns random bytes of the system.
pub(crate) fn random_bytes<const N: usize>(cx: &Cx) -> [u8; N] {
    let mut bytes = [0; N];
    cx.system().random(&mut bytes);
    bytes
}

fn namespace_uuid(name: &str) -> Option<Uuid> {
    let lower = name.to_ascii_lowercase();
    match lower.strip_prefix("namespace_").unwrap_or(&lower) {
        "dns" => Some(Uuid::NAMESPACE_DNS),
        "url" => Some(Uuid::NAMESPACE_URL),
        "oid" => Some(Uuid::NAMESPACE_OID),
        "x500" => Some(Uuid::NAMESPACE_X500),
        other => Uuid::parse_str(other).ok(),
    }
}
