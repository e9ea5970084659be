//! Egress rules for hosts, addresses and ports. The URL of a request is checked before its host is resolved; each
//! connection, to the host or to a proxy, is checked again once its addresses are known.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use url::{Host, Url};

/// A set of rules. A matching rule of `deny` blocks; otherwise a matching rule of `allow` permits; otherwise the
/// default applies.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Egress {
    /// Permitted destinations.
    pub allow: Vec<EgressRule>,
    /// Blocked destinations; takes precedence over `allow`.
    pub deny: Vec<EgressRule>,
    /// Whether destinations that match no rule are permitted.
    pub open: bool,
}

/// A rule: a host, `*.suffix`, an address or a CIDR block, each with an optional port, or a URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EgressRule {
    text: String,
    target: Target,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Target {
    Name(String),
    /// The suffix with its leading dot.
    Below(String),
    Block(IpAddr, u8),
}

/// A request that was blocked by a set of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// The requested host.
    pub host: String,
    /// The port; the default port of the scheme if the URL has none.
    pub port: Option<u16>,
    /// The rule that blocked the request, or that no rule permits it.
    pub reason: String,
}

impl std::fmt::Display for Blocked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "request to {} is blocked: {}", self.host, self.reason)
    }
}

impl std::error::Error for Blocked {}

impl Egress {
    /// Checks the URL of a request.
    ///
    /// # Errors
    /// The host, the port and the rule if the request is blocked.
    pub fn check(&self, url: &Url) -> Result<(), Blocked> {
        let host = url.host().map(|host| host.to_owned());
        self.decide(host.as_ref(), url.host_str().unwrap_or_default(), url.port_or_known_default())
    }

    /// Checks one end of a connection by name: the host of a request, or a proxy.
    pub(crate) fn check_peer(&self, name: &str, port: u16) -> Result<(), Blocked> {
        self.decide(Host::parse(name).ok().as_ref(), name, Some(port))
    }

    /// Checks the resolved addresses of a name, and returns the permitted ones.
    pub(crate) fn admit(
        &self,
        name: &str,
        port: u16,
        mut addresses: Vec<SocketAddr>,
    ) -> Result<Vec<SocketAddr>, Blocked> {
        let mut denied = None;
        addresses.retain(|address| {
            let rule = self.denies(Some(&of_address(address.ip())), Some(address.port()));
            denied = denied.take().or_else(|| rule.map(EgressRule::text));
            rule.is_none()
        });
        match denied {
            Some(rule) if addresses.is_empty() => {
                let reason = format!("its address matched deny rule `{rule}`");
                Err(Blocked { host: name.to_owned(), port: Some(port), reason })
            }
            _ => Ok(addresses),
        }
    }

    fn decide(&self, host: Option<&Host<String>>, name: &str, port: Option<u16>) -> Result<(), Blocked> {
        let reason = match self.denies(host, port) {
            Some(rule) => format!("matched deny rule `{}`", rule.text),
            None if self.open || self.allow.iter().any(|rule| rule.fits(host, port)) => return Ok(()),
            None => "no allow rule matched".to_owned(),
        };
        Err(Blocked { host: name.to_owned(), port, reason })
    }

    /// Returns the rule that denies a host, in any notation of its address.
    fn denies(&self, host: Option<&Host<String>>, port: Option<u16>) -> Option<&EgressRule> {
        let address = match host {
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(*address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(*address)),
            _ => None,
        };
        let spellings: Vec<Host<String>> = address.map(spellings).unwrap_or_default();
        let local = address.is_some_and(leads_here).then(|| Host::Domain("localhost".to_owned()));
        let hosts: Vec<&Host<String>> = host.into_iter().chain(&spellings).chain(&local).collect();
        self.deny.iter().find(|rule| hosts.iter().any(|host| rule.fits(Some(*host), port)))
    }
}

fn of_address(address: IpAddr) -> Host<String> {
    match address {
        IpAddr::V4(address) => Host::Ipv4(address),
        IpAddr::V6(address) => Host::Ipv6(address),
    }
}

/// Returns whether a connection to an address ends at this machine: loopback addresses and the unspecified address.
fn leads_here(address: IpAddr) -> bool {
    let here = |address: IpAddr| address.is_loopback() || address.is_unspecified();
    here(address) || inner(address).is_some_and(|inner| here(IpAddr::V4(inner)))
}

/// Returns the IPv4 address embedded in an IPv6 address: mapped, compatible, of a translator (RFC 6052) or of a tunnel
/// (RFC 3056).
fn inner(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    let octets = address.octets();
    let four = |at: usize| Ipv4Addr::new(octets[at], octets[at + 1], octets[at + 2], octets[at + 3]);
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] => {
            Some(four(12))
        }
        [0x2002, ..] => Some(four(2)),
        _ => None,
    }
}

/// Returns the equivalent addresses that reach the same host.
fn spellings(address: IpAddr) -> Vec<Host<String>> {
    let mut all: Vec<Host<String>> = inner(address).map(Host::Ipv4).into_iter().collect();
    if leads_here(address) {
        all.extend([Host::Ipv4(Ipv4Addr::LOCALHOST), Host::Ipv6(Ipv6Addr::LOCALHOST)]);
    }
    all
}

impl Blocked {
    /// Encodes the error as the message of an [`HttpError`](crate::HttpError) of the kind `Egress`; [`Blocked::parse`]
    /// decodes it.
    pub(crate) fn to_text(&self, place: &str) -> String {
        let port = self.port.map(|port| port.to_string()).unwrap_or_default();
        [place, &self.host, &port, &self.reason].join("\n")
    }

    /// Decodes the requested URL, without parts that may hold a key, and the error.
    pub fn parse(text: &str) -> Option<(&str, Blocked)> {
        let mut parts = text.splitn(4, '\n');
        let (place, host, port) = (parts.next()?, parts.next()?, parts.next()?);
        let (host, port) = (host.to_owned(), port.parse().ok());
        Some((place, Blocked { host, port, reason: parts.next()?.to_owned() }))
    }
}

impl EgressRule {
    /// Parses a rule.
    ///
    /// # Errors
    /// The reason why `text` is not a valid rule.
    pub fn parse(text: &str) -> Result<EgressRule, String> {
        let text = text.trim();
        let rule = |target, port| EgressRule { text: text.to_owned(), target, port };
        if text.contains("://") {
            let url = Url::parse(text).map_err(|reason| format!("it is no URL: {reason}"))?;
            if !url.username().is_empty() || url.password().is_some() {
                return Err("a rule holds no name and no password".to_owned());
            }
            let host = url.host_str().filter(|host| !host.is_empty());
            let port = url.port_or_known_default().ok_or("its scheme has no port")?;
            return Ok(rule(target_of(host.ok_or("it names no host")?)?, Some(port)));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(rule(whole(address), None));
        }
        if let Some((address, size)) = text.split_once('/') {
            let (size, port) = with_port(size)?;
            return Ok(rule(block_of(address, size)?, port));
        }
        let (host, port) = with_port(text)?;
        Ok(rule(target_of(host)?, port))
    }

    /// Returns the rule as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn fits(&self, host: Option<&Host<String>>, port: Option<u16>) -> bool {
        if self.port.is_some() && self.port != port {
            return false;
        }
        let address = match host {
            None => return false,
            Some(Host::Domain(name)) => {
                // A trailing dot marks a fully qualified name; the host is the same.
                let name = name.strip_suffix('.').unwrap_or(name);
                return match &self.target {
                    Target::Name(own) => own == name,
                    Target::Below(suffix) => name.len() > suffix.len() && name.ends_with(suffix.as_str()),
                    Target::Block(..) => false,
                };
            }
            Some(Host::Ipv4(address)) => IpAddr::V4(*address),
            Some(Host::Ipv6(address)) => IpAddr::V6(*address),
        };
        matches!(&self.target, Target::Block(block, size) if contains(*block, *size, address))
    }
}

/// Splits a rule into the host and the port.
fn with_port(text: &str) -> Result<(&str, Option<u16>), String> {
    // Colons inside brackets belong to an IPv6 address.
    let after = text.rfind(']').unwrap_or(0);
    let Some(colon) = text[after..].find(':').map(|at| after + at) else { return Ok((text, None)) };
    let port = text[colon + 1..].parse().map_err(|_| format!("`{}` is no port", &text[colon + 1..]))?;
    Ok((&text[..colon], Some(port)))
}

fn target_of(host: &str) -> Result<Target, String> {
    let suffix = host.strip_prefix("*.");
    let name = suffix.unwrap_or(host);
    if name.contains('*') {
        return Err("`*` stands only at the beginning, as in `*.example.com`".to_owned());
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    match Host::parse(name).map_err(|reason| reason.to_string())? {
        Host::Domain(name) if suffix.is_some() => Ok(Target::Below(format!(".{name}"))),
        Host::Domain(name) => Ok(Target::Name(name)),
        _ if suffix.is_some() => Err("an address has no subdomains".to_owned()),
        Host::Ipv4(address) => Ok(whole(address.into())),
        Host::Ipv6(address) => Ok(whole(address.into())),
    }
}

fn whole(address: IpAddr) -> Target {
    let address = address.to_canonical();
    Target::Block(address, bits(address))
}

fn block_of(address: &str, size: &str) -> Result<Target, String> {
    let plain = address.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(address);
    let address: IpAddr = plain.parse().map_err(|_| format!("`{address}` is no address"))?;
    let size: Option<u8> = size.parse().ok().filter(|size| *size <= bits(address));
    let size = size.ok_or_else(|| format!("the size of a block is a number from 0 to {}", bits(address)))?;
    Ok(Target::Block(address, size))
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Returns the address as a number, aligned to the highest bit.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
        IpAddr::V6(address) => u128::from(address),
    }
}

/// Returns whether a block contains an address. An IPv4-mapped IPv6 address (`::ffff:10.0.0.1`) matches blocks of both
/// families.
fn contains(block: IpAddr, size: u8, address: IpAddr) -> bool {
    let same = |address: IpAddr| {
        let differ = number(block) ^ number(address);
        block.is_ipv4() == address.is_ipv4() && differ.leading_zeros() >= u32::from(size)
    };
    same(address) || same(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(rule: &str, url: &str) -> bool {
        let rules = vec![EgressRule::parse(rule).expect("a rule")];
        let egress = Egress { allow: rules, deny: Vec::new(), open: false };
        egress.check(&Url::parse(url).expect("a URL")).is_ok()
    }

    #[test]
    fn rules_name_hosts_subdomains_addresses_blocks_and_ports() {
        for (rule, url) in [
            ("a.test", "https://A.test/x"),
            ("a.test", "https://a.test./x"),
            ("a.test.", "https://a.test:81/x"),
            ("*.a.test", "https://b.a.test"),
            ("*.a.test:443", "wss://c.b.a.test"),
            ("a.test:81", "http://a.test:81"),
            ("https://a.test/any", "https://a.test/x"),
            ("127.0.0.1", "http://127.1/"),
            ("127.0.0.1", "http://2130706433/"),
            ("127.0.0.1", "http://[::ffff:127.0.0.1]/"),
            ("::ffff:127.0.0.1", "http://127.0.0.1/"),
            ("10.0.0.0/8", "http://10.1.2.3"),
            ("10.0.0.0/8:80", "http://10.1.2.3"),
            ("0.0.0.0/0", "http://10.1.2.3"),
            ("::1", "http://[::1]:9"),
            ("[::1]:9", "http://[::1]:9"),
            ("fd00::/8", "http://[fd12::1]/"),
            ("[fd00::]/8:80", "http://[fd12::1]/"),
        ] {
            assert!(fits(rule, url), "{rule} {url}");
        }
        for (rule, url) in [
            ("a.test", "https://b.a.test"),
            ("a.test", "https://ba.test"),
            ("*.a.test", "https://a.test"),
            ("*.a.test", "https://ba.test"),
            ("a.test:81", "http://a.test"),
            ("https://a.test", "http://a.test"),
            ("10.0.0.0/8", "http://11.0.0.1"),
            ("10.0.0.0/8:81", "http://10.0.0.1"),
            ("0.0.0.0/0", "http://[::1]"),
            ("::/0", "http://10.0.0.1"),
            ("10.0.0.0/8", "http://a.test"),
        ] {
            assert!(!fits(rule, url), "{rule} {url}");
        }
    }

    #[test]
    fn what_is_no_rule_is_told() {
        for rule in [
            "",
            "*",
            "a.*.test",
            "*.10.0.0.1",
            "a.test:",
            "a.test:x",
            "a.test:70000",
            "10.0.0.0/33",
            "10.0.0/8",
            "a.test/8",
            "https://",
            "https://ann:pw@a.test",
            "a b",
        ] {
            assert!(EgressRule::parse(rule).is_err(), "{rule}");
        }
    }

    #[test]
    fn all_spellings_of_a_denied_address_are_denied() {
        let denied = |rule: &str, url: &str| {
            let deny = vec![EgressRule::parse(rule).expect("a rule")];
            let egress = Egress { allow: Vec::new(), deny, open: true };
            egress.check(&Url::parse(url).expect("a URL")).is_err()
        };
        for rule in ["127.0.0.0/8", "127.0.0.1", "localhost", "::1"] {
            for url in [
                "http://127.0.0.1:9",
                "http://127.1",
                "http://2130706433",
                "http://0x7f000001",
                "http://0x7f.1",
                "http://0177.0.0.1",
                "http://017700000001",
                "http://0",
                "http://0.0.0.0:9",
                "http://0x0",
                "http://[::]:9",
                "http://[::1]",
                "http://[::ffff:127.0.0.1]",
                "http://[::ffff:7f00:1]",
                "http://[::127.0.0.1]",
                "http://[64:ff9b::127.0.0.1]",
                "http://[2002:7f00:1::]",
                "http://[::ffff:0.0.0.0]",
                "http://127\u{3002}0\u{3002}0\u{3002}1",
                "http://\u{ff11}27.0.0.1",
                "http://a.test@127.0.0.1",
                "http://127.0.0.1\\@a.test",
                "http://127.0.0\t.1",
                "http://%31%32%37.0.0.1",
            ] {
                assert!(denied(rule, url), "{rule} {url}");
            }
            for url in ["http://128.0.0.1", "http://a.test", "http://[::2]", "http://[2001:db8::1]"] {
                assert!(!denied(rule, url), "{rule} {url}");
            }
        }
        for url in [
            "http://169.254.169.254",
            "http://[::ffff:a9fe:a9fe]",
            "http://[64:ff9b::a9fe:a9fe]",
            "http://2852039166",
        ] {
            assert!(denied("169.254.0.0/16", url), "{url}");
        }
    }

    #[test]
    fn what_a_name_resolves_to_is_denied_as_the_address_is() {
        let deny = vec![EgressRule::parse("10.0.0.0/8:80").expect("a rule")];
        let egress = Egress { allow: Vec::new(), deny, open: true };
        let admit = |addresses: &[&str]| {
            let addresses = addresses.iter().map(|text| text.parse().expect("an address")).collect();
            egress.admit("a.test", 80, addresses).map(|left| left.len())
        };
        assert_eq!(admit(&["11.0.0.1:80", "10.0.0.1:80"]), Ok(1));
        assert_eq!(admit(&["10.0.0.1:81"]), Ok(1));
        let blocked = admit(&["10.0.0.1:80", "[::ffff:10.0.0.2]:80"]).expect_err("blocked");
        assert_eq!(blocked.reason, "its address matched deny rule `10.0.0.0/8:80`");
        let text = blocked.to_text("http://a.test/x");
        assert_eq!(Blocked::parse(&text), Some(("http://a.test/x", blocked)));
    }

    #[test]
    fn denied_is_denied_whatever_allows_it() {
        let rule = |text| vec![EgressRule::parse(text).expect("a rule")];
        let egress = Egress { allow: rule("*.a.test"), deny: rule("x.a.test"), open: false };
        let check = |url: &str| egress.check(&Url::parse(url).expect("a URL")).map_err(|it| it.reason);
        assert_eq!(check("http://y.a.test"), Ok(()));
        assert_eq!(check("http://x.a.test"), Err("matched deny rule `x.a.test`".to_owned()));
        assert_eq!(check("http://b.test"), Err("no allow rule matched".to_owned()));
    }
}
