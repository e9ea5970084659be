//! From the manifest to the lock file to the files that imports find.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use harn_front::Through;
use harn_system::{System, SystemExt};

use crate::lock::{Lock, Locked};
use crate::manifest::{Dependency, Origin, dependencies};
use crate::{Result, Trouble, git, tree, trouble};

/// Maximum size of a manifest or lock file, in bytes.
const MAX_TEXT: u64 = 16 << 20;

/// The directory of the packages, relative to the project.
const PACKAGES: &str = ".harn/packages";

/// The lock file of processes that change the dependencies of the project.
const TURN: &str = ".harn/packages.lock";

/// Names of the packages that Harn has installed, one per line: nothing else is replaced.
const OWN: &str = ".harn/packages.installed";

/// Pause and number of attempts to get the lock: as long as a repository may take.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSES: u32 = 12_000;

/// Options of an installation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mode {
    /// The lock file must not change.
    pub locked: bool,
    /// Repositories are not contacted.
    pub offline: bool,
}

/// Dependencies that are resolved again, although the lock file contains them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renew<'a> {
    /// Nothing.
    Nothing,
    /// This dependency.
    One(&'a str),
    /// Everything.
    All,
}

/// The result of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The lock file as it is now.
    pub lock: Lock,
    /// Whether the lock file was written.
    pub written: bool,
    /// The packages whose files were written.
    pub copied: Vec<String>,
    /// The removed packages.
    pub removed: Vec<String>,
}

/// A project with a manifest.
pub struct Project<'a> {
    system: &'a dyn System,
    /// The directory of the project.
    root: PathBuf,
}

/// The resolved dependencies.
struct Found {
    lock: Lock,
    /// The location of the files of each package.
    sources: BTreeMap<String, PathBuf>,
}

/// A package that is missing, misplaced or outdated.
struct Step<'f> {
    name: &'f str,
    source: &'f Path,
    target: PathBuf,
    /// The files differ or are missing.
    is_stale: bool,
    /// A file where a directory is wanted now, or the other way round.
    other: Option<PathBuf>,
}

/// A dependency that is not resolved yet.
struct Wanted {
    dependency: Dependency,
    /// The directory that its path is relative to.
    base: PathBuf,
    /// That directory, relative to the project.
    shown: PathBuf,
    /// The git package that requires it.
    asked_by_git: Option<String>,
    /// What requires it, for messages.
    asked_by: String,
}

impl<'a> Project<'a> {
    /// Finds the project that contains a directory; `None` without a manifest. `folder` is absolute.
    #[must_use]
    pub fn near(system: &'a dyn System, folder: &Path) -> Option<Project<'a>> {
        let manifest = harn_front::manifest_near(folder, &Through(system))?;
        Some(Project { system, root: manifest.parent()?.to_owned() })
    }

    /// Creates the project of a directory with a manifest.
    #[must_use]
    pub fn in_folder(system: &'a dyn System, root: PathBuf) -> Project<'a> {
        Project { system, root }
    }

    /// The path of its manifest.
    #[must_use]
    pub fn manifest(&self) -> PathBuf {
        self.root.join("harn.toml")
    }

    /// Reads the manifest.
    ///
    /// # Errors
    /// The file cannot be read.
    fn manifest_text(&self) -> Result<String> {
        self.text(&self.manifest())
    }

    /// Resolves the dependencies of the manifest, writes the lock file, and copies the packages to where imports find
    /// them.
    ///
    /// # Errors
    /// An invalid manifest, lock file or package; errors of git; a target that Harn did not create.
    pub async fn install(&self, mode: Mode, renew: Renew<'_>) -> Result<Done> {
        let _turn = self.turn().await?;
        self.install_in_turn(mode, renew).await
    }

    /// Fetches packages again from their repositories, as in the lock file, even if they are cached. The lock file is
    /// not changed. The installation compares the files with it.
    ///
    /// # Errors
    /// An invalid lock file, a name without a repository in it, and errors of git.
    pub async fn refetch(&self, which: Renew<'_>) -> Result<()> {
        let _turn = self.turn().await?;
        let place = self.lock_path();
        let lock = self.lock()?.unwrap_or_default();
        let is_wanted = |locked: &&Locked| which == Renew::All || which == Renew::One(&locked.name);
        let from_git = |locked: &Locked| {
            let url = locked.source.strip_prefix("git+")?.to_owned();
            Some((locked.name.clone(), url, locked.commit.clone()?))
        };
        let found: Vec<_> = lock.packages.iter().filter(is_wanted).filter_map(from_git).collect();
        if let Renew::One(name) = which
            && found.is_empty()
        {
            return trouble(format!("{} has no repository for a dependency {name}", place.display()));
        }
        let cache = cache(self.system)?;
        for (name, url, commit) in found {
            git::refetch(self.system, &cache, &url, &commit)
                .await
                .map_err(|Trouble(why)| Trouble(format!("dependency {name}: {why}")))?;
        }
        Ok(())
    }

    /// Edits the manifest, and installs. After an error the manifest is restored.
    ///
    /// # Errors
    /// As [`Project::install`], and those of the change.
    pub async fn edit(&self, change: impl FnOnce(&str) -> Result<String>) -> Result<Done> {
        // Locks from reading to writing: a concurrent change must see this one.
        let _turn = self.turn().await?;
        let path = self.manifest();
        self.stays_inside(&path)?;
        let before = self.manifest_text()?;
        let after = change(&before)?;
        self.write(&path, &after)?;
        match self.install_in_turn(Mode::default(), Renew::Nothing).await {
            Ok(done) => Ok(done),
            Err(error) => {
                self.write(&path, &before)?;
                Err(error)
            }
        }
    }

    async fn install_in_turn(&self, mode: Mode, renew: Renew<'_>) -> Result<Done> {
        let old = self.lock()?;
        let found = self.resolve(old.as_ref(), mode, renew, false).await?;
        // Reports impossible steps before anything is written.
        let steps = self.steps(&found, old.as_ref())?;
        let gone: Vec<&str> = old
            .iter()
            .flat_map(|lock| &lock.packages)
            .map(|package| package.name.as_str())
            .filter(|name| found.lock.get(name).is_none())
            .collect();
        if !gone.is_empty() {
            self.no_links()?;
        }
        let written = self.write_lock(old.as_ref(), &found.lock, mode)?;
        let copied = match self.carry_out(&steps) {
            Ok(copied) => copied,
            Err(error) => {
                // The first error is the one to report.
                if written {
                    let _ = match &old {
                        Some(old) => self.write(&self.lock_path(), &old.text()),
                        None => self.remove(&self.lock_path()),
                    };
                }
                return Err(error);
            }
        };
        let wanted: Vec<PathBuf> =
            found.sources.iter().map(|(name, source)| self.place_of(name, source)).collect();
        let mut removed = Vec::new();
        for name in &gone {
            for place in [self.folder_of(name), self.file_of(name)] {
                if !wanted.contains(&place) && self.system.link_facts(&place).is_ok() {
                    self.remove(&place)?;
                    removed.push((*name).to_owned());
                }
            }
        }
        let mut own = self.own();
        if gone.iter().filter(|name| own.remove(**name)).count() > 0 {
            self.write_own(&own)?;
        }
        Ok(Done { lock: found.lock, written, copied, removed })
    }

    /// Writes only the lock file; returns whether it changed.
    ///
    /// # Errors
    /// As [`Project::install`].
    pub async fn write_lock_only(&self, mode: Mode, renew: Renew<'_>) -> Result<bool> {
        let _turn = self.turn().await?;
        let old = self.lock()?;
        let found = self.resolve(old.as_ref(), mode, renew, false).await?;
        self.write_lock(old.as_ref(), &found.lock, mode)
    }

    /// Ensures that the packages are installed as in the lock file, before a program is run or checked. Does nothing
    /// in a project without dependencies.
    ///
    /// # Errors
    /// A missing or outdated lock file, a package that was changed since its installation, and the errors of
    /// [`Project::install`].
    pub async fn ready(&self) -> Result<()> {
        // Other readers report the remaining errors of a manifest.
        let Ok(text) = self.manifest_text() else { return Ok(()) };
        if text.parse::<toml::Table>().is_err() || dependencies(&text, &self.manifest())?.is_empty() {
            return Ok(());
        }
        // If everything is up to date, this writes nothing and waits for no lock.
        match self.as_locked().await {
            Ok((lock, found)) if self.steps(&found, Some(&lock))?.is_empty() => return Ok(()),
            Ok(_) => {}
            Err(error) if self.system.link_facts(&self.root.join(TURN)).is_err() => return Err(error),
            // Another process may have written the manifest and not yet the lock file.
            Err(_) => {}
        }
        let _turn = self.turn().await?;
        let (lock, found) = self.as_locked().await?;
        self.carry_out(&self.steps(&found, Some(&lock))?).map(drop)
    }

    /// Returns the content of the lock file, which must match the manifest.
    async fn as_locked(&self) -> Result<(Lock, Found)> {
        let place = self.lock_path();
        let Some(lock) = self.lock()? else {
            return trouble(format!("{} is missing; run `harn install`", place.display()));
        };
        let found = self.resolve(Some(&lock), Mode::default(), Renew::Nothing, true).await?;
        if let Some(name) = first_difference(&lock, &found.lock) {
            return trouble(format!("{} is out of date for {name}; run `harn install`", place.display()));
        }
        Ok((lock, found))
    }

    /// Resolves all direct and transitive dependencies of the manifest. With `installed`, uses the copies of the
    /// project if they match the lock file, and resolves nothing that the lock file does not contain.
    async fn resolve(
        &self,
        old: Option<&Lock>,
        mode: Mode,
        renew: Renew<'_>,
        installed: bool,
    ) -> Result<Found> {
        let manifest = self.manifest();
        let mut queue: VecDeque<Wanted> = VecDeque::new();
        for dependency in dependencies(&self.manifest_text()?, &manifest)? {
            queue.push_back(Wanted {
                dependency,
                base: self.root.clone(),
                shown: PathBuf::new(),
                asked_by_git: None,
                asked_by: manifest.display().to_string(),
            });
        }
        if let Renew::One(name) = renew
            && !queue.iter().any(|wanted| wanted.dependency.alias == name)
            && old.is_none_or(|lock| lock.get(name).is_none())
        {
            return trouble(format!("{} has no dependency {name}", manifest.display()));
        }
        let mut known: BTreeMap<String, (Locked, String)> = BTreeMap::new();
        let mut sources = BTreeMap::new();
        while let Some(wanted) = queue.pop_front() {
            let name = wanted.dependency.alias.clone();
            let before = old.and_then(|lock| lock.get(&name));
            let (locked, place, shown) = match &wanted.dependency.origin {
                Origin::Path(path) => {
                    if let Some(package) = &wanted.asked_by_git {
                        return trouble(format!(
                            "git package {package} has the path dependency {name}; a package from a repository can only \
                             depend on others from repositories"
                        ));
                    }
                    self.by_path(&name, &wanted, path)?
                }
                Origin::Git { url, want } => {
                    let source = format!("git+{url}");
                    let fits = |locked: &&Locked| {
                        locked.source == source && locked.rev_request.as_deref() == Some(want.name())
                    };
                    let renewed = renew == Renew::All || renew == Renew::One(&name);
                    match before.filter(fits).filter(|_| !renewed) {
                        Some(locked) => {
                            let place = self.locked_files(locked, url, mode, installed).await?;
                            (locked.clone(), place, PathBuf::new())
                        }
                        None if installed => {
                            let place = self.lock_path();
                            return trouble(format!(
                                "{} is out of date for {name}; run `harn install`",
                                place.display()
                            ));
                        }
                        None => {
                            if mode.offline {
                                return trouble(format!(
                                    "{name} is not in {}, and `--offline` was given",
                                    self.lock_path().display()
                                ));
                            }
                            let found = async {
                                let commit = git::commit_of(self.system, url, want).await?;
                                let place =
                                    git::fetch(self.system, &cache(self.system)?, url, &commit, false)
                                        .await?;
                                Ok((commit, place))
                            };
                            let (commit, place) = found
                                .await
                                .map_err(|Trouble(why)| Trouble(format!("dependency {name}: {why}")))?;
                            let locked = Locked {
                                name: name.clone(),
                                source,
                                rev_request: Some(want.name().to_owned()),
                                commit: Some(commit),
                                content_hash: Some(tree::digest(self.system, &place)?),
                            };
                            (locked, place, PathBuf::new())
                        }
                    }
                }
            };
            if let Some((other, by)) = known.get(&name) {
                if *other != locked {
                    return trouble(format!(
                        "{by} and {} want different things under the name {name}: {} and {}",
                        wanted.asked_by,
                        said(other),
                        said(&locked)
                    ));
                }
                continue;
            }
            self.queue_its_own(&mut queue, &wanted.dependency, &place, shown)?;
            sources.insert(name.clone(), place);
            known.insert(name, (locked, wanted.asked_by));
        }
        let packages = known.into_values().map(|(locked, _)| locked).collect();
        Ok(Found { lock: Lock { packages }, sources })
    }

    /// Resolves a path dependency: its lock entry, its path, and the path relative to the project.
    fn by_path(&self, name: &str, wanted: &Wanted, path: &Path) -> Result<(Locked, PathBuf, PathBuf)> {
        let place = wanted.base.join(path);
        let shown = if path.is_absolute() { path.to_owned() } else { tidy(&wanted.shown.join(path)) };
        let Ok(real) = self.system.canonical(&place) else {
            return trouble(format!("dependency {name}: no such file or directory: {}", place.display()));
        };
        let facts = self.system.facts(&real).map_err(|e| Trouble(format!("dependency {name}: {e}")))?;
        if !facts.is_dir() && real.extension().is_none_or(|e| e != "harn") {
            return trouble(format!(
                "dependency {name}: {} is neither a folder nor a .harn file",
                place.display()
            ));
        }
        let root = self.system.canonical(&self.root).unwrap_or_else(|_| self.root.clone());
        if root.starts_with(&real) {
            return trouble(format!("dependency {name}: {} holds the project itself", place.display()));
        }
        let source = format!("path+file://{}", shown.display().to_string().replace('\\', "/"));
        let locked =
            Locked { name: name.to_owned(), source, rev_request: None, commit: None, content_hash: None };
        Ok((locked, real, shown))
    }

    /// Returns the files of a locked git package, verified against its digest.
    async fn locked_files(&self, locked: &Locked, url: &str, mode: Mode, installed: bool) -> Result<PathBuf> {
        let (name, wanted) = (&locked.name, locked.content_hash.as_deref().unwrap_or_default());
        let copy = self.folder_of(name);
        if installed && self.system.is_dir(&copy) {
            if tree::digest(self.system, &copy).is_ok_and(|digest| digest == wanted) {
                return Ok(copy);
            }
            return trouble(format!(
                "{} was changed since it was installed; `harn install` brings dependency {name} back as {} has it",
                copy.display(),
                self.lock_path().display()
            ));
        }
        let cache = cache(self.system)?;
        let commit = locked.commit.as_deref().unwrap_or_default();
        let place = git::fetch(self.system, &cache, url, commit, mode.offline)
            .await
            .map_err(|Trouble(why)| Trouble(format!("dependency {name}: {why}")))?;
        if tree::digest(self.system, &place)? == wanted {
            return Ok(place);
        }
        // The cache may be damaged: fetches again.
        if !mode.offline {
            self.remove(&place)?;
            let place = git::fetch(self.system, &cache, url, commit, false)
                .await
                .map_err(|Trouble(why)| Trouble(format!("dependency {name}: {why}")))?;
            if tree::digest(self.system, &place)? == wanted {
                return Ok(place);
            }
        }
        trouble(format!(
            "dependency {name}: commit {commit} does not have the content that {} says (content_hash {wanted})",
            self.lock_path().display()
        ))
    }

    /// Queues the dependencies of a package.
    fn queue_its_own(
        &self,
        queue: &mut VecDeque<Wanted>,
        dependency: &Dependency,
        place: &Path,
        shown: PathBuf,
    ) -> Result<()> {
        let name = &dependency.alias;
        let manifest = place.join("harn.toml");
        let text = if self.system.is_file(&manifest) { Some(self.text(&manifest)?) } else { None };
        if let Some(wanted) = &dependency.package {
            let table = text.as_deref().unwrap_or_default().parse::<toml::Table>().unwrap_or_default();
            let own = table.get("package").and_then(|p| p.get("name")).and_then(toml::Value::as_str);
            if own != Some(wanted) {
                let own = own.map_or("has no name".to_owned(), |own| format!("is called '{own}'"));
                return trouble(format!("dependency {name}: the package should be '{wanted}', but it {own}"));
            }
        }
        let Some(text) = text else { return Ok(()) };
        let is_git = matches!(dependency.origin, Origin::Git { .. });
        for own in dependencies(&text, &manifest)? {
            queue.push_back(Wanted {
                dependency: own,
                base: place.to_owned(),
                shown: shown.clone(),
                asked_by_git: is_git.then(|| name.clone()),
                asked_by: format!("package {name}"),
            });
        }
        Ok(())
    }

    /// Returns the steps that make the installed packages equal to `found`.
    ///
    /// # Errors
    /// A target that Harn did not create: a link, or existing files.
    fn steps<'f>(&self, found: &'f Found, old: Option<&Lock>) -> Result<Vec<Step<'f>>> {
        if found.sources.is_empty() {
            return Ok(Vec::new());
        }
        self.no_links()?;
        let mut places: BTreeMap<PathBuf, &str> = BTreeMap::new();
        for (name, source) in &found.sources {
            let place = self.place_of(name, source);
            let shown = place.display().to_string();
            if let Some(other) = places.insert(place, name) {
                return trouble(format!(
                    "dependencies {other} and {name} would both be {shown}; one of them needs another name"
                ));
            }
        }
        let own = self.own();
        let mut steps = Vec::new();
        for (name, source) in &found.sources {
            let target = self.place_of(name, source);
            let folder = self.folder_of(name);
            let other = if target == folder { self.file_of(name) } else { folder };
            let other = Some(other)
                .filter(|other| !places.contains_key(other) && self.system.link_facts(other).is_ok());
            let is_stale = if self.is_link(&target) {
                // The target of a link is never written, and read only if it is the package itself.
                self.system.canonical(&target).ok().as_ref() != Some(source)
            } else {
                target != *source && !tree::same(self.system, source, &target)
            };
            let is_own = own.contains(name) || old.is_some_and(|lock| lock.get(name).is_some());
            for place in other.iter().chain(is_stale.then_some(&target)) {
                if self.is_link(place) {
                    return trouble(format!(
                        "dependency {name}: {} is a link, which Harn has not put there; remove it",
                        place.display()
                    ));
                }
                if !is_own && self.system.link_facts(place).is_ok() {
                    return trouble(format!(
                        "dependency {name}: {} is there already, and Harn has not put it there; move it away, or give \
                         the dependency another name",
                        place.display()
                    ));
                }
            }
            if is_stale || other.is_some() {
                steps.push(Step { name, source, target, is_stale, other });
            }
        }
        Ok(steps)
    }

    /// Copies outdated packages; returns their names.
    fn carry_out(&self, steps: &[Step<'_>]) -> Result<Vec<String>> {
        // Recorded before the files exist: if the process ends in between, no unrecorded files remain.
        let mut own = self.own();
        if steps.iter().filter(|step| own.insert(step.name.to_owned())).count() > 0 {
            self.write_own(&own)?;
        }
        let mut copied = Vec::new();
        for step in steps {
            if let Some(other) = &step.other {
                self.remove(other)?;
            }
            if step.is_stale {
                tree::copy(self.system, step.source, &step.target)
                    .map_err(|Trouble(why)| Trouble(format!("dependency {}: {why}", step.name)))?;
                copied.push(step.name.to_owned());
            }
        }
        Ok(copied)
    }

    /// Waits until no other process changes the dependencies of the project, and locks them.
    async fn turn(&self) -> Result<Option<harn_system::Lock>> {
        self.no_links()?;
        let place = self.root.join(TURN);
        let cannot = |e: &std::io::Error| format!("cannot lock {}: {e}", place.display());
        for _ in 0..PAUSES {
            let folder = self.root.join(".harn");
            match self.system.make_dirs(&folder).and_then(|()| self.system.try_lock(&place)) {
                Ok(Some(held)) => return Ok(Some(held)),
                Ok(None) => self.system.sleep(PAUSE).await,
                // The directory is not writable. Commands that write nothing still work.
                Err(e) if matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
                    return Ok(None);
                }
                Err(e) => return trouble(cannot(&e)),
            }
        }
        trouble(format!(
            "another process changes the dependencies of this project and does not end: it holds {}",
            place.display()
        ))
    }

    /// Rejects links in the paths of packages.
    fn no_links(&self) -> Result<()> {
        self.refuse_links(&[".harn", PACKAGES, TURN, OWN], "the dependencies")
    }

    /// Rejects links at these places of the project: through a link, `what` would write or remove files elsewhere. An
    /// untrusted repository or archive can contain such a link.
    ///
    /// # Errors
    /// The first place that is a link.
    pub fn refuse_links(&self, places: &[&str], what: &str) -> Result<()> {
        for name in places {
            let place = self.root.join(name);
            if self.is_link(&place) {
                let way = match *name {
                    ".harn" => "remove it (HARN_STATE_DIR names another folder for the state of runs)",
                    _ => "remove it",
                };
                return trouble(format!(
                    "{} is a link, and what it leads to is not touched for {what}; {way}",
                    place.display()
                ));
            }
        }
        Ok(())
    }

    /// Rejects a file of the project that is a link out of it.
    fn stays_inside(&self, path: &Path) -> Result<()> {
        if !self.is_link(path) {
            return Ok(());
        }
        let root = self.system.canonical(&self.root).unwrap_or_else(|_| self.root.clone());
        match self.system.canonical(path) {
            Ok(real) if real.starts_with(root) => Ok(()),
            _ => trouble(format!(
                "{} is a link that leads out of the project, and is not written; put a file in its place",
                path.display()
            )),
        }
    }

    fn is_link(&self, path: &Path) -> bool {
        self.system.link_facts(path).is_ok_and(|facts| facts.is_link())
    }

    /// Returns the names of the packages that Harn has installed; empty if that is unknown.
    fn own(&self) -> BTreeSet<String> {
        let text = self.system.read_text(&self.root.join(OWN), MAX_TEXT).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn write_own(&self, names: &BTreeSet<String>) -> Result<()> {
        let text: String = names.iter().map(|name| format!("{name}\n")).collect();
        self.write(&self.root.join(OWN), &text)
    }

    fn write_lock(&self, old: Option<&Lock>, new: &Lock, mode: Mode) -> Result<bool> {
        if old == Some(new) || (old.is_none() && new.packages.is_empty()) {
            return Ok(false);
        }
        let place = self.lock_path();
        if mode.locked {
            return trouble(format!("{} would need to change, and `--locked` was given", place.display()));
        }
        self.stays_inside(&place)?;
        self.write(&place, &new.text())?;
        Ok(true)
    }

    /// The lock file, if there is one.
    fn lock(&self) -> Result<Option<Lock>> {
        let place = self.lock_path();
        if self.system.link_facts(&place).is_err() {
            return Ok(None);
        }
        Lock::read(&self.text(&place)?, &place).map(Some)
    }

    fn lock_path(&self) -> PathBuf {
        self.root.join("harn.lock")
    }

    fn folder_of(&self, name: &str) -> PathBuf {
        self.root.join(PACKAGES).join(name)
    }

    fn file_of(&self, name: &str) -> PathBuf {
        self.root.join(PACKAGES).join(format!("{name}.harn"))
    }

    /// Returns the target of a package with these files.
    fn place_of(&self, name: &str, source: &Path) -> PathBuf {
        if self.system.is_file(source) { self.file_of(name) } else { self.folder_of(name) }
    }

    fn text(&self, path: &Path) -> Result<String> {
        self.system
            .read_text(path, MAX_TEXT)
            .map_err(|e| Trouble(format!("cannot read {}: {e}", path.display())))
    }

    fn write(&self, path: &Path, text: &str) -> Result<()> {
        let written = self.system.replace(path, text.as_bytes());
        written.map_err(|e| Trouble(format!("cannot write {}: {e}", path.display())))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.system.remove(path).map_err(|e| Trouble(format!("cannot remove {}: {e}", path.display())))
    }
}

/// Returns `HARN_CACHE_DIR`, or the cache directory of the user.
pub(crate) fn cache(system: &dyn System) -> Result<PathBuf> {
    let set = |name: &str| system.env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let place = set("HARN_CACHE_DIR")
        .or_else(|| set("XDG_CACHE_HOME").map(|folder| folder.join("harn")))
        .or_else(|| set("HOME").map(|folder| folder.join(".cache/harn")));
    let Some(place) = place else {
        return trouble("there is no folder for the cache of packages: set HARN_CACHE_DIR");
    };
    Ok(system.work_dir().join(place))
}

/// Describes the first difference between two lock files.
fn first_difference(old: &Lock, new: &Lock) -> Option<String> {
    let differs = |name: &str| old.get(name) != new.get(name);
    let mut names = old.packages.iter().chain(&new.packages).map(|package| package.name.as_str());
    names.find(|name| differs(name)).map(str::to_owned)
}

/// Describes a locked package for a message.
fn said(locked: &Locked) -> String {
    match &locked.rev_request {
        Some(rev) => format!("{} at {rev}", locked.source),
        None => locked.source.clone(),
    }
}

/// Normalizes a relative path: removes `.` and inner `..`.
fn tidy(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::Normal(_))) => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}
