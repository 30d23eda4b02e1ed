// A job as launcherd is asked to run it, from what hvdrun's options say: `muster submit` and `hvdrun --launcher`. The
// environment of the ranks is taken here, where the user is. Reads files of hosts.
#pragma once

#include <string>

#include "base/env.h"
#include "base/status.h"
#include "cli/options/options.h"
#include "launcherd/service/launcher_address.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline verbs {

// What of hvdrun's options has no meaning with a launcherd: INVALID_ARGUMENT for what the job would miss, a line for
// the notes of `options` for the rest.
base::Status check_for_launcherd(HvdrunOptions& options);

// Without name, priority and the like. `directory` is the user's; umask is this process's.
base::Result<v1::SubmitRequest> make_submission(HvdrunOptions& options, const base::Environment& environment,
                                                const std::string& directory);

// A refusal that begins with a field of the API, as "spec.size: …", with the option that sets it instead: "-np: …".
base::Status in_words_of_options(const base::Status& refusal);

// Gives it to launcherd, with a request_id of its own where there is none: the job's id. Blocks. An answer that does
// not come in time says nothing about the job: the sentence names the request_id, with which no second one is made.
base::Result<std::string> submit_once(const launcherd::LauncherAddress& launcher, v1::SubmitRequest request);

}  // namespace muster::cli::verbs
