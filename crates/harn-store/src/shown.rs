//! Addresses of databases in messages.

/// Returns an address without its password and its options. Everything before the last `@` may contain the password.
pub(crate) fn shown(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => (scheme, rest),
        // Without a scheme the secret part is unknown.
        _ => return "something else".to_owned(),
    };
    // An unescaped password may contain the delimiters.
    let (user, rest) = match rest.rsplit_once('@') {
        Some((user, rest)) => (user.split([':', '/', '?', '#', '@']).next(), rest),
        None => (None, rest),
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    match user {
        Some(user) if !user.is_empty() => format!("{scheme}://{user}@{rest}"),
        _ => format!("{scheme}://{rest}"),
    }
}
