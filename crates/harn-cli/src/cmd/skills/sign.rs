//! Keys, signatures, and trusted signers.

use std::path::{Path, PathBuf};

use harn_runtime::{SKILL_FILE, Signature, SigningKey, fingerprint_of, trusted_keys};
use harn_system::{Real, System, SystemExt};
use harn_value::json;
use harn_vm::block_on;

use super::{Outcome, Shown, cannot, found, named};
use crate::args::LookArgs;

/// The largest key file.
const MAX_KEY: u64 = 64 << 10;

/// The largest `SKILL.md` that is signed.
const MAX_SKILL: u64 = 4 << 20;

/// Generates a random key.
pub(super) fn key(system: &Real, file: &Path) -> Outcome {
    let mut seed = [0; 32];
    system.random(&mut seed);
    let key = SigningKey::from_seed(seed)?;
    let fingerprint = key.fingerprint();
    let public = file.with_file_name(format!("{fingerprint}.pub"));
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        system.make_dirs(folder).map_err(|e| cannot("make", folder, &e))?;
    }
    // An existing key is never replaced.
    harn_system::real::create_private(file, key.private_pem().as_bytes())
        .map_err(|e| cannot("write", file, &e))?;
    system.replace(&public, key.public_pem().as_bytes()).map_err(|e| cannot("write", &public, &e))?;
    Ok(Shown::text(format!(
        "{fingerprint}\n\nprivate key: {} (keep it to yourself)\npublic key:  {}\n\n`harn skills trust {}` trusts it on a machine.\n",
        file.display(),
        public.display(),
        public.display(),
    )))
}

/// Signs the skill in a directory.
pub(super) fn sign(system: &Real, folder: &Path, key: &Path) -> Outcome {
    let pem = system.read_text(key, MAX_KEY).map_err(|e| cannot("read", key, &e))?;
    let signer = SigningKey::from_pem(&pem).map_err(|e| cannot("use", key, &e))?;
    // Reject a directory that is not a valid skill.
    harn_runtime::read_entry(system, folder, "cli")
        .map_err(|e| cannot("sign", &folder.join(SKILL_FILE), &e))?;
    let file = folder.join(SKILL_FILE);
    let bytes = system.read(&file, MAX_SKILL).map_err(|e| cannot("read", &file, &e))?;
    let now = jiff::Timestamp::from_millisecond(system.now_ms())
        .map_or_else(|_| String::new(), |now| now.to_string());
    let signature = file.with_extension("md.sig");
    let text = signer.sign(&bytes, &now);
    system.replace(&signature, text.as_bytes()).map_err(|e| cannot("write", &signature, &e))?;
    Ok(Shown::text(format!("{} is signed by {}\n", file.display(), signer.fingerprint())))
}

/// Formats a signature.
pub(super) fn told(signature: &Signature) -> String {
    match (&signature.fingerprint, signature.trusted) {
        (None, _) => "none that fits the file".to_owned(),
        (Some(signer), true) => format!("by {signer}, who is trusted"),
        (Some(signer), false) => format!("by {signer}, who is not trusted"),
    }
}

/// Verifies that a skill is signed by a trusted signer.
pub(super) fn verify(system: &Real, skill: &str, look: &LookArgs) -> Outcome {
    let found = found(system, look)?;
    let place = PathBuf::from(skill);
    let (folder, trusted) = if system.is_file(&place.join(SKILL_FILE)) {
        let (entry, _) = harn_runtime::read_entry(system, &place, "cli")
            .map_err(|e| cannot("read", &place.join(SKILL_FILE), &e))?;
        let list = entry.get("trusted_signers").and_then(harn_value::Data::as_array);
        (place, list.into_iter().flatten().map(harn_value::Data::printed).collect())
    } else {
        let skill = named(&found, skill)?;
        (skill.folder.clone(), skill.trusted_signers())
    };
    let read = harn_runtime::read_skill(system, &folder, &trusted, &found.signers);
    let signature = block_on(read).map_err(|error| error.to_string())??.signature;
    let data = json!({
        "folder": folder.display().to_string(), "signed": signature.signed, "trusted": signature.trusted,
        "signer_fingerprint": signature.fingerprint,
    });
    let text = format!("{}: signature {}\n", folder.join(SKILL_FILE).display(), told(&signature));
    Ok(Shown { text, data, code: u8::from(!signature.trusted) })
}

fn folder_of_keys(system: &Real) -> Result<PathBuf, String> {
    trusted_keys(system)
        .ok_or_else(|| "HOME is not set, so there is no place for the keys that are trusted".to_owned())
}

/// Adds a trusted signer.
pub(super) fn trust(system: &Real, file: &Path) -> Outcome {
    let pem = system.read_text(file, MAX_KEY).map_err(|e| cannot("read", file, &e))?;
    let fingerprint = fingerprint_of(&pem).map_err(|e| cannot("trust", file, &e))?;
    let place = folder_of_keys(system)?.join(format!("{fingerprint}.pub"));
    let folder = place.parent().unwrap_or(Path::new("."));
    system.make_dirs(folder).map_err(|e| cannot("make", folder, &e))?;
    system.replace(&place, pem.as_bytes()).map_err(|e| cannot("write", &place, &e))?;
    Ok(Shown::text(format!("{fingerprint} is trusted\n")))
}

/// Removes a trusted signer.
pub(super) fn distrust(system: &Real, fingerprint: &str) -> Outcome {
    let known = keys(system)?;
    let Some(fingerprint) = known.iter().find(|known| known.eq_ignore_ascii_case(fingerprint)) else {
        return Err(format!(
            "'{fingerprint}' is not among those who are trusted; `harn skills trust --list` shows them"
        ));
    };
    let place = folder_of_keys(system)?.join(format!("{fingerprint}.pub"));
    system.remove(&place).map_err(|e| cannot("remove", &place, &e))?;
    Ok(Shown::text(format!("{fingerprint} is trusted no longer\n")))
}

/// Lists the trusted signers.
pub(super) fn trusted(system: &Real) -> Outcome {
    let keys = keys(system)?;
    Ok(Shown::text(match keys.as_slice() {
        [] => "Nobody is trusted.\n".to_owned(),
        keys => keys.join("\n") + "\n",
    }))
}

fn keys(system: &Real) -> Result<Vec<String>, String> {
    let folder = folder_of_keys(system)?;
    let names = system.names(&folder).unwrap_or_default();
    let fingerprint = |name: PathBuf| Some(name.to_string_lossy().strip_suffix(".pub")?.to_owned());
    Ok(names.into_iter().filter_map(fingerprint).filter(|name| !name.starts_with('.')).collect())
}
