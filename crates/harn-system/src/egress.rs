//! Where requests may lead: rules about hosts, addresses and ports.

use std::net::IpAddr;

use url::{Host, Url};

/// A set of rules. A rule of `deny` that fits blocks; else one of `allow` that fits lets pass; else the default decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Egress {
    /// What may be asked.
    pub allow: Vec<EgressRule>,
    /// What may not be asked, whatever else allows it.
    pub deny: Vec<EgressRule>,
    /// Whether what no rule names may be asked.
    pub open: bool,
}

/// A rule: a host, `*.suffix`, an address, a block of addresses, each with or without a port, or a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressRule {
    text: String,
    target: Target,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    Name(String),
    /// The suffix with its leading dot.
    Below(String),
    Block(IpAddr, u8),
}

/// A request that a set of rules blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// The host that was asked.
    pub host: String,
    /// The port, that of the scheme when the URL names none.
    pub port: Option<u16>,
    /// Which rule it was, or that there was none.
    pub reason: String,
}

impl Egress {
    /// Lets a request to an address pass, or says why not.
    ///
    /// # Errors
    /// What blocks it.
    pub fn check(&self, url: &Url) -> Result<(), Blocked> {
        let port = url.port_or_known_default();
        let fits = |rule: &&EgressRule| rule.fits(url.host(), port);
        let reason = match self.deny.iter().find(fits) {
            Some(rule) => format!("matched deny rule `{}`", rule.text),
            None if self.open || self.allow.iter().any(|rule| fits(&rule)) => return Ok(()),
            None => "no allow rule matched".to_owned(),
        };
        Err(Blocked { host: url.host_str().unwrap_or_default().to_owned(), port, reason })
    }
}

impl EgressRule {
    /// Reads a rule.
    ///
    /// # Errors
    /// Why the text is none.
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

    /// The rule as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn fits(&self, host: Option<Host<&str>>, port: Option<u16>) -> bool {
        if self.port.is_some() && self.port != port {
            return false;
        }
        let address = match host {
            None => return false,
            Some(Host::Domain(name)) => {
                // The dot at the end says that the name is whole: the host is the same.
                let name = name.strip_suffix('.').unwrap_or(name);
                return match &self.target {
                    Target::Name(own) => own == name,
                    Target::Below(suffix) => name.len() > suffix.len() && name.ends_with(suffix.as_str()),
                    Target::Block(..) => false,
                };
            }
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
        };
        matches!(&self.target, Target::Block(block, size) if contains(*block, *size, address))
    }
}

/// The text before a port, and the port.
fn with_port(text: &str) -> Result<(&str, Option<u16>), String> {
    // The colons inside of brackets belong to an address.
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

/// The address as a number, from its highest bit on.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
        IpAddr::V6(address) => u128::from(address),
    }
}

/// Whether a block holds an address. One of IPv4 that is written in IPv6 (`::ffff:10.0.0.1`) is both.
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
    fn denied_is_denied_whatever_allows_it() {
        let rule = |text| vec![EgressRule::parse(text).expect("a rule")];
        let egress = Egress { allow: rule("*.a.test"), deny: rule("x.a.test"), open: false };
        let check = |url: &str| egress.check(&Url::parse(url).expect("a URL")).map_err(|it| it.reason);
        assert_eq!(check("http://y.a.test"), Ok(()));
        assert_eq!(check("http://x.a.test"), Err("matched deny rule `x.a.test`".to_owned()));
        assert_eq!(check("http://b.test"), Err("no allow rule matched".to_owned()));
    }
}
