//! Every script in `tests/scenarios`, one test each.

use std::{collections::BTreeSet, fs, path::PathBuf};

use tidegate_tests::scenario;

macro_rules! scenarios {
    ($($folder:ident: [$($name:ident),* $(,)?]),* $(,)?) => {
        $(mod $folder {
            $(
                #[tokio::test(start_paused = true)]
                async fn $name() {
                    super::run(stringify!($folder), stringify!($name)).await;
                }
            )*
        })*

        const LISTED: &[&str] = &[$($(concat!(stringify!($folder), "/", stringify!($name))),*),*];
    };
}

scenarios! {
    weighted: [good_release],
}

async fn run(folder: &str, name: &str) {
    let path = scripts().join(folder).join(format!("{name}.txt"));
    if let Err(why) = scenario::check(&path).await {
        panic!("{why}");
    }
}

fn scripts() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

#[test]
fn every_script_is_run() {
    let mut found = BTreeSet::new();
    for folder in fs::read_dir(scripts()).unwrap().flatten().filter(|it| it.path().is_dir()) {
        for script in fs::read_dir(folder.path()).unwrap().flatten() {
            let name = script.path().with_extension("");
            let name = name.strip_prefix(scripts()).unwrap();
            found.insert(name.to_string_lossy().into_owned());
        }
    }
    let listed = LISTED.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(found, listed, "scripts in the folder, and those listed in this file");
}
