//! The addresses that a request of the host may go to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::{TcpStream, lookup_host};
use wharf_config::WebhookUrl;

use super::DeliveryFailure;

/// Limits where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Any address: the URL comes from the configuration.
    Any,
    /// Public addresses: the URL comes from a client, which must not use the host to look around in
    /// its network.
    Public {
        /// True if this machine may be reached too.
        with_loopback: bool,
    },
}

impl Reach {
    /// Returns true if a connection to this address may be opened.
    pub(crate) fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Public { with_loopback } => {
                let address = address.to_canonical();
                is_public(address) || (with_loopback && address.is_loopback())
            }
        }
    }

    /// Returns true if the URL names an address that is not allowed. What a name leads to is known
    /// only on connecting.
    pub(crate) fn refuses_literal(self, url: &WebhookUrl) -> bool {
        url.host.parse().is_ok_and(|address| !self.allows(address))
    }

    /// Resolves the URL's host and connects to an address that is allowed.
    pub(super) async fn connect(self, url: &WebhookUrl) -> Result<TcpStream, DeliveryFailure> {
        let failed = |error: std::io::Error| {
            DeliveryFailure::temporary(format!("cannot connect to {}: {error}", url.origin()))
        };
        let found = lookup_host((url.host.as_str(), url.port)).await.map_err(failed)?;
        // The connection goes to the checked addresses themselves: a second look at the name could
        // find others.
        let addresses: Vec<SocketAddr> =
            found.filter(|address| self.allows(address.ip())).collect();
        if addresses.is_empty() {
            let why = format!("{} leads to no address that may be connected to", url.origin());
            return Err(DeliveryFailure::permanent(why));
        }
        TcpStream::connect(addresses.as_slice()).await.map_err(failed)
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Returns true for addresses that IANA's registry of special addresses does not keep from the
/// internet.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let is_shared = first == 100 && (64..128).contains(&second);
    let is_protocol = first == 192 && second == 0 && third == 0;
    let is_benchmark = first == 198 && (18..20).contains(&second);
    let is_reserved = first == 0 || first >= 224;
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || is_shared
        || is_protocol
        || is_benchmark
        || is_reserved)
}

/// Returns true for global addresses that do not carry one of the other protocol that is not
/// public.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, third, fourth, fifth, sixth, seventh, eighth] = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match (first, second) {
        // Translation to IPv4 (RFC 6052), and tunnels by 6to4.
        (0x64, 0xff9b) if [third, fourth, fifth, sixth] == [0; 4] => {
            is_public_v4(v4(seventh, eighth))
        }
        (0x2002, _) => is_public_v4(v4(second, third)),
        // Protocol assignments, tunnels by Teredo among them, and documentation.
        (0x2001, 0..0x200 | 0xdb8) | (0x3fff, 0..0x1000) => false,
        // All other global unicast is in 2000::/3.
        _ => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Reach = Reach::Public { with_loopback: true };
    const FAR: Reach = Reach::Public { with_loopback: false };

    fn allows(reach: Reach, address: &str) -> bool {
        reach.allows(address.parse().unwrap())
    }

    #[test]
    fn only_public_addresses_are_allowed() {
        for address in [
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "64:ff9b::808:808",
            "::ffff:8.8.8.8",
        ] {
            assert!(allows(FAR, address) && allows(NEAR, address), "{address}");
        }
        for address in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "203.0.113.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::ffff:10.0.0.1",
            "::7f00:1",
            "64:ff9b::a00:1",
            "64:ff9b:1::808:808",
            "2001::1",
            "2001:db8::1",
            "2002:a00:1::1",
            "fc00::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!allows(FAR, address) && !allows(NEAR, address), "{address}");
        }
    }

    #[test]
    fn this_machine_is_allowed_on_request() {
        for address in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(!allows(FAR, address) && allows(NEAR, address), "{address}");
        }
    }

    #[tokio::test]
    async fn name_that_leads_to_a_refused_address_is_not_connected_to() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let url: WebhookUrl = format!("http://localhost:{port}/").parse().unwrap();
        NEAR.connect(&url).await.unwrap();
        listener.accept().unwrap();
        let failure = FAR.connect(&url).await.unwrap_err();
        assert!(
            !failure.can_retry && failure.why.contains("may be connected to"),
            "{}",
            failure.why
        );
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
}
