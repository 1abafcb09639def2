//! `host(url)` and `cidr(ip, range)`.

use std::net::IpAddr;

use url::Url;

/// The host of `url` in lower case, international names in their ASCII form, an IPv6 address without its brackets, a
/// dot at the end left out.
///
/// # Errors
/// It is no absolute URL, or has no host.
pub(crate) fn host(url: &str) -> Result<String, String> {
    let parsed = Url::parse(url).map_err(|error| format!("`host`: `{url}` is no URL: {error}"))?;
    let host = parsed.host_str().filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| format!("`host`: `{url}` has no host"))?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Ok(host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase())
}

/// The addresses that share a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    network: IpAddr,
    prefix: u32,
}

impl Range {
    /// `10.0.0.0/8`, `fd00::/8`, or one address alone.
    ///
    /// # Errors
    /// What is wrong with it, on one line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let bad = || format!("`cidr`: `{text}` is no range of addresses such as `10.0.0.0/8`");
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let network: IpAddr = address.parse().map_err(|_| bad())?;
        let width = width(network);
        let plain = |prefix: &&str| prefix.len() <= 3 && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = match prefix {
            None => width,
            Some(prefix) => Some(prefix).filter(plain).and_then(|prefix| prefix.parse().ok()).ok_or_else(bad)?,
        };
        if prefix > width {
            return Err(format!("`cidr`: the prefix of `{text}` is at most {width}"));
        }
        let range = Self { network, prefix };
        if masked(network, prefix) != bits(network) {
            return Err(format!("`cidr`: `{text}` has bits set after its prefix of {prefix}"));
        }
        Ok(range)
    }

    /// Whether the address `ip` is in the range. An IPv4 address written as IPv6 (`::ffff:10.0.0.1`) is IPv4, and
    /// one of the other family is in no range.
    ///
    /// # Errors
    /// `ip` is no address.
    pub(crate) fn contains(self, ip: &str) -> Result<bool, String> {
        let address: IpAddr = ip.parse().map_err(|_| format!("`cidr`: `{ip}` is no IP address"))?;
        let address = address.to_canonical();
        Ok(width(address) == width(self.network) && masked(address, self.prefix) == bits(self.network))
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The bits of `address` that the prefix covers.
fn masked(address: IpAddr, prefix: u32) -> u128 {
    let after = width(address).saturating_sub(prefix);
    bits(address).checked_shr(after).and_then(|kept| kept.checked_shl(after)).unwrap_or(0)
}
