//! `harn portal`: shows recorded runs in the browser.

use std::rc::Rc;
use std::sync::Arc;

use harn_portal::{Settings, Token};
use harn_system::{Command, Real, System, SystemExt, real::process};
use harn_value::{Data as Value, json};
use tokio::sync::Notify;

use super::providers::{text, texts};
use crate::args::PortalArgs;
use crate::keywords::KEYWORDS;
use crate::out;
use crate::{program, signal};

/// Serves the portal until Ctrl-C or a termination signal. Returns the exit code.
pub(crate) fn portal(args: &PortalArgs) -> u8 {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.to_string()),
    };
    match runtime.block_on(serve(args)) {
        Ok(()) => 0,
        Err(error) => failed(&error),
    }
}

fn failed(error: &str) -> u8 {
    eprintln!("{}", harn_syntax::error_line(error));
    1
}

async fn serve(args: &PortalArgs) -> Result<(), String> {
    let drawn = || {
        let mut bytes = [0; 24];
        Real::new().random(&mut bytes);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let (token, once) = (drawn(), drawn());
    let mut settings = settings(args)?;
    settings.token = (!args.no_token).then(|| Token::new(token.clone(), once.clone()));
    let portal = harn_portal::bind(settings, &args.host, args.port).await?;
    if args.no_token && !portal.address().ip().is_loopback() {
        return Err(format!("--no-token needs a loopback address such as 127.0.0.1, not {}", args.host));
    }
    let address = |token: &str| match args.no_token {
        true => format!("http://{}", portal.address()),
        false => format!("http://{}/?token={token}", portal.address()),
    };
    let (shown, page) = (address(&token), address(&once));
    out::write(&format!(
        "Harn portal listening on {shown}\nWatching run records in {}\n",
        args.dir.display()
    ));
    let opened = async {
        if args.open
            && let Err(error) = open(&page).await
        {
            eprintln!(
                "warning: cannot open a browser ({error}); open {shown} yourself, or use `--open false`"
            );
        }
        std::future::pending().await
    };
    // Dropping the portal also ends the programs that it launched.
    let told = Arc::new(Notify::new());
    let teller = told.clone();
    signal::tell(move || teller.notify_one());
    tokio::select! {
        biased;
        ended = portal.serve() => ended,
        () = opened => Ok(()),
        () = told.notified() => Ok(()),
    }
}

#[expect(clippy::disallowed_methods, reason = "the binary that runs, for programs that are launched")]
fn settings(args: &PortalArgs) -> Result<Settings, String> {
    let system = Rc::new(Real::new());
    let workspace = system.work_dir();
    let program = std::env::current_exe().map_err(|e| format!("cannot find the harn program: {e}"))?;
    let vm = program::session_vm(system);
    let llm = harn_runtime::llm_runtime(&vm);
    let models = harn_runtime::list_models(&llm);
    let provider = |provider: &Value| {
        let ready = provider["key"] != "not set";
        let variable = texts(&provider["key_envs"]).into_iter().next();
        let own = models.iter().filter(|model| model["provider"] == provider["name"]);
        json!({
            "name": provider["name"], "ready": ready, "default_model": provider["default_model"],
            "note": variable.filter(|_| !ready).map(|variable| format!("{variable} is not set")),
            "models": own.map(|model| text(&model["id"])).collect::<Vec<_>>(),
        })
    };
    let providers = harn_runtime::list_providers(&llm);
    Ok(Settings {
        dir: workspace.join(&args.dir),
        workspace,
        program,
        remote_launch: args.allow_remote_launch,
        token: None,
        version: env!("CARGO_PKG_VERSION"),
        models: json!({"providers": providers.iter().map(provider).collect::<Vec<_>>()}),
        words: json!({
            "keywords": KEYWORDS.iter().map(|word| word.name).collect::<Vec<_>>(),
            "builtins": vm.builtin_names().collect::<Vec<_>>(),
        }),
    })
}

/// Opens a page in the user's browser.
async fn open(page: &str) -> Result<(), String> {
    let (program, before): (&str, &[&str]) = match Real::new().platform().0 {
        "macos" | "darwin" => ("open", &[]),
        "windows" => ("rundll32", &["url.dll,FileProtocolHandler"]),
        _ => ("xdg-open", &[]),
    };
    let mut command = Command::new(program);
    command.arguments = before.iter().copied().chain([page]).map(str::to_owned).collect();
    match process::run(command).await {
        Ok(end) if end.code == Some(0) => Ok(()),
        // Its output may contain the address with the one-time token.
        Ok(_) => Err(format!("{program} failed")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
