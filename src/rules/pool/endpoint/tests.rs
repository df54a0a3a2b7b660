use proptest::prelude::*;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn list(entries: &[&str]) -> Vec<Allow> {
    entries.iter().map(|e| Allow::parse(e).unwrap()).collect()
}

fn judged(address: &str, allow: &[&str]) -> Result<(), String> {
    admits("gpu.lan", ip(address), &list(allow)).map_err(|e| e.to_string())
}

#[test]
fn urls_become_endpoints() {
    use Scheme::{Http, Https};
    for (url, scheme, host, port, prefix) in [
        ("http://tower.lan:11434", Http, "tower.lan", 11434, ""),
        ("http://Tower.LAN:1234/v1", Http, "tower.lan", 1234, ""),
        ("http://tower.lan:1234/v1/", Http, "tower.lan", 1234, ""),
        ("https://tower.lan/gpu/v1", Https, "tower.lan", 443, "/gpu"),
        ("http://tower.lan/gpu/", Http, "tower.lan", 80, "/gpu"),
        ("HTTP://10.0.0.7:8080", Http, "10.0.0.7", 8080, ""),
        ("http://[FD00::0:1]:8080/v1", Http, "fd00::1", 8080, ""),
        ("http://[::ffff:10.0.0.7]:1", Http, "::ffff:10.0.0.7", 1, ""),
        ("http://1password.com:1", Http, "1password.com", 1, ""),
        ("http://10.0.0.7.nip.io:1", Http, "10.0.0.7.nip.io", 1, ""),
        ("http://0x.example:1", Http, "0x.example", 1, ""),
    ] {
        let want = Endpoint {
            scheme,
            host: host.into(),
            port,
            prefix: prefix.into(),
        };
        assert_eq!(Endpoint::parse(url), Ok(want), "{url}");
    }
    let shown = Endpoint::parse("https://[fd00::1]/x/v1")
        .unwrap()
        .to_string();
    assert_eq!(shown, "https://[fd00::1]:443/x");
}

#[test]
fn what_is_no_endpoint_is_refused_without_repeating_it() {
    for url in [
        "",
        "canary",
        "canary:1",
        "ftp://canary",
        "file:///canary",
        "unix:///canary",
        "http://",
        "http:///canary",
        "http://canary:canary@tower:1",
        "http://canary@tower:1",
        "http://tower:1@canary",
        "http://canary:0",
        "http://canary:70000",
        "http://canary:",
        "http://canary:1/?a=b",
        "http://canary:1/#x",
        "http://canary:1/#",
        "http://can\\ary:1",
        "http://ca nary:1",
        " http://canary:1",
        "http://canary:1\r\nX: y",
        "http://ca*nary:1",
        "http://canary..lan:1",
        "http://[fe80::1%25eth0]:1/canary",
        "http://canary:1/../x",
        "http://canary:1/a/%2E%2e/x",
        "http://caña.canary:1",
    ] {
        let e = Endpoint::parse(url).expect_err(url);
        assert!(!e.contains("canary"), "{url}: {e}");
    }
    let long = format!("http://{}.lan", "a".repeat(3000));
    assert!(Endpoint::parse(&long).unwrap_err().contains("2048 bytes"));
}

#[test]
fn addresses_in_a_resolvers_other_spellings_are_no_hosts() {
    for host in [
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0X7F000001",
        "127.1",
        "127.0.1",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "127.0.0.0x1",
        "127.0.0.01",
        "127.0.0.1.",
        "0",
        "0x",
        "1.2.3.4.5",
        "256.1.1.1",
        "a.1",
        "a.0x1",
    ] {
        let e = Endpoint::parse(&format!("http://{host}:80")).expect_err(host);
        assert!(e.contains("unusual spelling"), "{host}: {e}");
        assert!(Allow::parse(host).is_err(), "{host}");
    }
}

#[test]
fn special_addresses_are_refused_in_every_form_whatever_is_allowed_around_them() {
    let all = [
        "0.0.0.0/0",
        "::/0",
        "gpu.lan",
        "0.0.0.0/1",
        "128.0.0.0/1",
        "::/8",
    ];
    for address in [
        "127.0.0.1",
        "127.255.255.254",
        "::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::7f00:1",
        "64:ff9b:1:ffff::7f00:1",
        "2002:7f00:1::1",
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "fe80::1",
        "febf::1",
        "0.0.0.0",
        "0.1.2.3",
        "::",
        "::ffff:0.0.0.0",
        "224.0.0.1",
        "239.255.255.255",
        "ff02::1",
        "255.255.255.255",
        "::ffff:255.255.255.255",
        "240.0.0.1",
        "100.100.100.200",
        "fd00:ec2::254",
    ] {
        let e = judged(address, &all).expect_err(address);
        assert!(e.contains("the key must allow"), "{address}: {e}");
        judged(address, &[]).unwrap_err();
    }
}

#[test]
fn special_addresses_are_admitted_where_they_are_meant() {
    for (address, entry) in [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.0/8"),
        ("::ffff:127.0.0.1", "127.0.0.1/32"),
        ("127.0.0.1", "::ffff:127.0.0.1"),
        ("64:ff9b::7f00:1", "127.0.0.1"),
        ("::1", "::1"),
        ("::1", "[::1]"),
        ("169.254.7.7", "169.254.7.0/24"),
        ("fe80::1", "fe80::/10"),
        ("fd00:ec2::254", "fd00:ec2::254"),
    ] {
        judged(address, &[entry]).unwrap_or_else(|e| panic!("{address} by {entry}: {e}"));
    }
    // One kind says nothing of another, nor one address of its neighbour.
    judged("::1", &["127.0.0.1"]).unwrap_err();
    judged("127.0.0.1", &["::1"]).unwrap_err();
    judged("127.0.0.2", &["127.0.0.1"]).unwrap_err();
    judged("169.254.169.254", &["127.0.0.0/8"]).unwrap_err();
}

#[test]
fn ordinary_addresses_need_an_entry() {
    for (address, allow, want) in [
        ("10.0.0.7", &["10.0.0.0/8"][..], true),
        ("10.0.0.7", &["10.0.0.7"], true),
        ("10.0.0.7", &["10.0.0.9/8"], true),
        ("10.0.0.7", &["10.0.1.0/24"], false),
        ("10.0.0.7", &[], false),
        ("10.0.0.7", &["gpu.lan"], true),
        ("10.0.0.7", &["GPU.lan"], true),
        ("10.0.0.7", &["lan"], false),
        ("10.0.0.7", &["other.gpu.lan"], false),
        ("::ffff:10.0.0.7", &["10.0.0.0/8"], true),
        ("10.0.0.7", &["::ffff:10.0.0.0/104"], true),
        ("64:ff9b::a00:7", &["10.0.0.0/8"], true),
        ("64:ff9b::a00:7", &["64:ff9b::/96"], true),
        ("fd00::7", &["fd00::/8"], true),
        ("fd00::7", &["10.0.0.0/8"], false),
        ("2001:db8::7", &["2001:db8::/32"], true),
    ] {
        let got = judged(address, allow);
        assert_eq!(got.is_ok(), want, "{address} {allow:?}: {got:?}");
    }
    let peer = [Allow::peer(ip("::ffff:10.0.0.7"))];
    assert_eq!(admits("x", ip("10.0.0.7"), &peer), Ok(()));
    assert!(admits("x", ip("10.0.0.8"), &peer).is_err());
}

#[test]
fn entries_are_networks_addresses_or_names() {
    for (text, want) in [
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("10.0.0.7", "10.0.0.7/32"),
        ("[fd00::1]", "fd00::1/128"),
        ("GPU.lan", "gpu.lan"),
    ] {
        assert_eq!(Allow::parse(text).unwrap().to_string(), want);
    }
    for bad in [
        "",
        "10.0.0.0/33",
        "10.0.0/8",
        "a/8",
        "http://x",
        "a:80",
        "a b",
        "*.lan",
        "fd00::/129",
    ] {
        assert!(
            Allow::parse(bad).unwrap_err().contains("10.0.0.0/8"),
            "{bad}"
        );
    }
}

proptest! {
    /// No list of wide networks and names lets a special address through, in whichever form.
    #[test]
    fn an_embedded_address_is_judged_like_itself(bits: u32, form in 0u8..6, len in 0u8..4) {
        let v4 = Ipv4Addr::from(bits);
        let [a, b, c, d] = v4.octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let v6 = match form {
            0 => v4.to_ipv6_mapped(),
            1 => Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
            2 => Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            3 => Ipv6Addr::new(0x64, 0xff9b, 1, 2, 3, 4, high, low),
            4 => Ipv6Addr::new(0x2002, high, low, 5, 6, 7, 8, 9),
            _ => Ipv6Addr::new(0, 0, 0, 0, 0, 0, high | 1, low),
        };
        let v4 = if form == 5 { Ipv4Addr::from(bits | 0x1_0000) } else { v4 };
        let allow = [Allow::Net(Ipv4Net::new(v4, len).unwrap().trunc().into())];
        let plain = admits("h", v4.into(), &allow).is_ok();
        prop_assert_eq!(admits("h", v6.into(), &allow).is_ok(), plain);
        let ordinary = !(v4.is_loopback() || v4.is_link_local() || v4.is_multicast() || v4.is_broadcast()
            || a == 0 || a >= 240 || v4.octets() == [100, 100, 100, 200]);
        prop_assert_eq!(plain, ordinary);
    }

    #[test]
    fn no_text_makes_the_parser_panic_and_what_it_takes_reads_back(text in ".{0,40}") {
        for url in [text.clone(), format!("http://{text}")] {
            if let Ok(e) = Endpoint::parse(&url) {
                prop_assert_eq!(Endpoint::parse(&e.to_string()), Ok(e));
            }
        }
    }
}
