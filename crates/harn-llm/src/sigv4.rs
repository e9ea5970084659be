//! AWS Signature Version 4, for Amazon Bedrock.

use sha2::{Digest, Sha256};
use url::Url;

use crate::json::hex;
use crate::secret::Secret;

/// AWS credentials.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// Access key id.
    pub access_key: String,
    /// Secret access key.
    pub secret_key: Secret,
    /// Session token, for temporary credentials.
    pub session_token: Option<Secret>,
}

const BLOCK: usize = 64;

fn sha256(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = if key.len() > BLOCK { sha256(key) } else { key.to_vec() };
    block.resize(BLOCK, 0);
    let pad = |byte: u8| block.iter().map(|b| b ^ byte).collect::<Vec<u8>>();
    let inner = sha256(&[pad(0x36), text.to_vec()].concat());
    sha256(&[pad(0x5c), inner].concat())
}

/// Returns date and time (`20150830`, `20150830T123600Z`) of a time in milliseconds since the Unix epoch.
fn dates(now_ms: i64) -> (String, String) {
    let seconds = now_ms.div_euclid(1000);
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Converts days since 1970-01-01 to a date of the proleptic Gregorian calendar.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + i64::from(month <= 2);
    let date = format!("{year:04}{month:02}{day:02}");
    let time = format!("{date}T{:02}{:02}{:02}Z", rest / 3600, rest / 60 % 60, rest % 60);
    (date, time)
}

/// Signs a POST of `body` and returns the headers to add. The last one is the authorisation.
pub fn sign(
    url: &Url,
    body: &[u8],
    region: &str,
    service: &str,
    credentials: &Credentials,
    now_ms: i64,
) -> Vec<(String, Secret)> {
    let (date, time) = dates(now_ms);
    let host = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_string(),
    };
    let mut headers =
        vec![("content-type", "application/json".to_string()), ("host", host), ("x-amz-date", time.clone())];
    if let Some(token) = &credentials.session_token {
        headers.push(("x-amz-security-token", token.reveal().to_string()));
    }
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let signed = names.join(";");
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    // Every service but S3 encodes the path twice.
    let path: Vec<String> = url.path().split('/').map(crate::wire::bedrock::percent_encode).collect();
    let canonical = format!(
        "POST\n{}\n{}\n{lines}\n{signed}\n{}",
        path.join("/"),
        url.query().unwrap_or_default(),
        hex(&sha256(body))
    );
    let scope = format!("{date}/{region}/{service}/aws4_request");
    let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&sha256(canonical.as_bytes())));
    let mut key = hmac(format!("AWS4{}", credentials.secret_key.reveal()).as_bytes(), date.as_bytes());
    for part in [region, service, "aws4_request"] {
        key = hmac(&key, part.as_bytes());
    }
    let signature = hex(&hmac(&key, to_sign.as_bytes()));
    let mut out = vec![("x-amz-date".to_string(), Secret::new(time))];
    if let Some(token) = &credentials.session_token {
        out.push(("x-amz-security-token".to_string(), token.clone()));
    }
    out.push((
        "authorization".to_string(),
        Secret::new(format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={signed}, Signature={signature}",
            credentials.access_key
        )),
    ));
    out
}

/// Parses a profile from the content of `~/.aws/credentials`.
pub fn profile(text: &str, name: &str) -> Option<Credentials> {
    let mut inside = false;
    let (mut access, mut secret, mut token) = (None, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            inside = section.trim() == name;
        } else if let Some((key, value)) = line.split_once('=').filter(|_| inside) {
            let value = value.trim().to_string();
            match key.trim() {
                "aws_access_key_id" => access = Some(value),
                "aws_secret_access_key" => secret = Some(value),
                "aws_session_token" => token = Some(value),
                _ => {}
            }
        }
    }
    Some(Credentials {
        access_key: access?,
        secret_key: Secret::new(secret?),
        session_token: token.map(Secret::new),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmac_matches_rfc_4231() {
        assert_eq!(
            hex(&hmac(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hex(&hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn dates_are_civil() {
        assert_eq!(dates(1_440_938_160_000), ("20150830".into(), "20150830T123600Z".into()));
        assert_eq!(dates(951_782_399_000).1, "20000228T235959Z");
        assert_eq!(dates(951_868_799_000).0, "20000229");
    }

    #[test]
    fn the_key_is_derived_as_documented() {
        // The worked example of the signing guide.
        let mut key = hmac(b"AWS4wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", b"20150830");
        for part in ["us-east-1", "iam", "aws4_request"] {
            key = hmac(&key, part.as_bytes());
        }
        assert_eq!(hex(&key), "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9");
    }

    #[test]
    fn a_signature_names_what_it_covers_and_hides_the_secret() {
        let credentials = Credentials {
            access_key: "AKID".into(),
            secret_key: Secret::new("verysecret"),
            session_token: None,
        };
        let url = Url::parse("https://bedrock-runtime.us-east-1.amazonaws.com/model/a%3A0/converse").unwrap();
        let headers = sign(&url, b"{}", "us-east-1", "bedrock", &credentials, 1_440_938_160_000);
        let authorization = headers.last().unwrap().1.reveal();
        assert!(authorization.starts_with(
            "AWS4-HMAC-SHA256 Credential=AKID/20150830/us-east-1/bedrock/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature="
        ));
        assert!(!authorization.contains("verysecret"));
    }

    #[test]
    fn profiles_are_sections() {
        let text =
            "[other]\naws_access_key_id = X\n[default]\naws_access_key_id=A\naws_secret_access_key = S\n";
        assert_eq!(profile(text, "default").unwrap().access_key, "A");
        assert!(profile(text, "other").is_none());
    }
}
