//! `harn playground`: runs a program with another program as its host.

use std::rc::Rc;

use harn_runtime::{HostModule, ModelTraffic, attach_host};
use harn_system::{Real, Stream};
use harn_value::Value;
use harn_vm::{Interrupt, Outcome, block_on};

use crate::args::PlaygroundArgs;
use crate::program::{self, End, Living, Prepared, Program, RunOptions};
use crate::report::Problem;
use crate::signal;
use crate::style::Colour;
use crate::surroundings::{Surroundings, task_variable};

/// Runs the program, once or repeatedly. Returns the exit code.
pub(crate) fn playground(args: &PlaygroundArgs) -> u8 {
    let mut env = Vec::new();
    if let Some(task) = &args.task {
        env.push(task_variable(task));
    }
    if let Some(llm) = &args.llm {
        let parts = llm.split_once(':').filter(|(provider, model)| !provider.is_empty() && !model.is_empty());
        let Some((provider, model)) = parts else {
            crate::args::usage_error(
                "playground",
                &format!("--llm must be PROVIDER:MODEL, such as ollama:qwen3, got '{llm}'"),
            );
        };
        env.push(("HARN_LLM_PROVIDER", provider.to_owned()));
        env.push(("HARN_LLM_MODEL", model.to_owned()));
    }
    if args.watch {
        return super::watch::again_and_again(&args.script, |set| {
            let code = once(args, env.clone(), |interrupt| set(Some(interrupt)));
            set(None);
            code
        });
    }
    once(args, env, signal::stop_on_signal)
}

fn once(args: &PlaygroundArgs, env: Vec<(&'static str, String)>, ready: impl FnOnce(Interrupt)) -> u8 {
    let colour = Colour::of(Stream::Error).on();
    let folders = [&args.host, &args.script].into_iter().filter_map(|file| file.parent());
    let programs = super::packages::ready(folders)
        .and_then(|()| Ok((Program::read(&args.script)?, Program::read(&args.host)?)));
    let (script, host) = match programs {
        Ok(programs) => programs,
        Err(text) => {
            eprintln!("{}", harn_syntax::printable(&text));
            return 1;
        }
    };
    let world = Rc::new(Surroundings::new(Rc::new(Real::new()), env));
    let end = run(args, &script, &host, world, ready, |problem| eprintln!("{}", problem.draw(colour)));
    let (code, result) = end.settle();
    if let Err(failure) = result {
        eprint!("{}", failure.draw(colour));
    }
    code
}

fn run(
    args: &PlaygroundArgs,
    script: &Program,
    host: &Program,
    world: Rc<Surroundings>,
    ready: impl FnOnce(Interrupt),
    warn: impl Fn(&Problem),
) -> End {
    let traffic = ModelTraffic {
        replies: args.llm_mock.clone(),
        record_replies: args.llm_mock_record.clone(),
        ..ModelTraffic::default()
    };
    let mut options = RunOptions { task: args.task.clone(), traffic, ..RunOptions::default() };
    let prepared = match program::prepare(script, &mut options, world, ready) {
        Ok(prepared) => prepared,
        Err(end) => return end,
    };
    let (living, warnings) = match host.beside(&prepared.vm) {
        Ok(loaded) => loaded,
        Err(end) => return end,
    };
    warnings.iter().chain(&prepared.warnings).for_each(warn);
    let task = args.task.as_deref().map_or(Value::NIL, Value::str);
    let end = block_on(within(script, host, &prepared, living, task));
    let refused = |text: String| End::Refused(vec![Problem::general(text)]);
    if let Some(text) = options.traffic.leftovers(&prepared.vm) {
        prepared.vm.system().write_err(&format!("warning: {text}\n"));
    }
    let end = end.unwrap_or_else(|error| refused(format!("cannot start the event loop: {error}")));
    program::unless_unwritten(&prepared.vm, end)
}

/// Runs the script while the host program is running.
async fn within(script: &Program, host: &Program, prepared: &Prepared, living: Living, task: Value) -> End {
    let vm = &prepared.vm;
    let refused = |text: String| End::Refused(vec![Problem::general(text)]);
    let (instance, functions) = living;
    if let Err(error) = instance.begin().await {
        return host.end(vm, &Outcome { result: Err(error) });
    }
    let module = match HostModule::new(instance, host.name(), &functions) {
        Ok(module) => Rc::new(module),
        Err(error) => return host.end(vm, &Outcome { result: Err(error) }),
    };
    attach_host(vm, module.clone());
    let end = match prepared.run(None, task).await {
        Ok(outcome) => script.end(vm, &outcome),
        Err(text) => refused(text),
    };
    match (module.instance().end().await, end) {
        (Err(error), End::Result { code: 0, .. }) => host.end(vm, &Outcome { result: Err(error) }),
        (_, end) => end,
    }
}
