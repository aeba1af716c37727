//! Game workloads on the sandbox, in virtual time.
//!
//! | requirement | tests |
//! | --- | --- |
//! | the published example, row by row | `seed`; `game::tests::seed` in engine-check |
//! | mistakes of others are not made | `mistakes`; `docs/mistakes.md` has the list |
//! | how many pods are made and deleted, for all small numbers | `game::scale` in the engine |
//! | no more pods out of service than may be | `game::check` and `game::tests::stories` in engine-check; `crash`, `stale` |
//! | death between any two writes | `crash`; `game::tests::sweep` in engine-check |
//! | caches that are behind | `stale` |
//! | verdicts of hooks, for all small limits | `game::hook::tests` in the engine |
//! | conditions and paths | `game::condition`, `game::json_path` and phases in the providers |
//! | sets, in order and in parallel, by each way, with a lost node | `nodes`, `sets`; `game::tests::sets` in the engine |
//! | validation | `admission` |
//! | names of revisions | `game::names` in the engine; `mistakes` |
//! | hooks of pods, and their requests to the cluster | `hooks` |
//! | refused writes | `refusals` |
//! | a slow or broken object delays no other | `crowd` |
//! | autoscalers | `autoscaling` |
//! | pauses, verbs, and tools that apply manifests | `people`; `game::tests::controls` in engine-check |
//! | methods, bodies, headers, Secrets and deadlines of hooks | `providers` |
//! | all of it at once | `storms`; `game::tests::stories` in engine-check |

#![expect(clippy::unwrap_used, clippy::panic, reason = "what is not there is a failed test")]

mod admission;
mod autoscaling;
mod crash;
mod crowd;
mod hooks;
mod idle;
mod metrics;
mod mistakes;
mod nodes;
mod people;
mod providers;
mod refusals;
mod rig;
mod seed;
mod sets;
mod stale;
mod storms;
