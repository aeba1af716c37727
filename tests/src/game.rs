//! Helpers for tests of game workloads, on the sandbox and on a real cluster.

/// Members of the status of the published example at a pause: those it prints, and ours. In order.
pub const STATUS_MEMBERS: [&str; 19] = [
    "availableReplicas",
    "canary",
    "collisionCount",
    "conditions",
    "currentRevision",
    "currentStepHash",
    "currentStepIndex",
    "expectedUpdatedReplicas",
    "labelSelector",
    "message",
    "observedGeneration",
    "pauseConditions",
    "phase",
    "readyReplicas",
    "replicas",
    "updateRevision",
    "updatedAvailableReplicas",
    "updatedReadyReplicas",
    "updatedReplicas",
];
