// Makes a request to launcherd from hvdrun's options, for `muster submit` and `hvdrun --launcher`. The environment of
// the ranks is taken here, because the user's shell is here. Reads files of hosts.
#pragma once

#include <string>

#include "base/env.h"
#include "base/status.h"
#include "cli/options/job_request.h"
#include "cli/options/output_plan.h"
#include "cli/options/reach.h"
#include "launcherd/service/launcher_address.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline verbs {

// Checks for hvdrun's options that have no meaning with launcherd. INVALID_ARGUMENT if the job cannot run as the user
// asked without the option. For each other option, `output` gets a note.
base::Status check_for_launcherd(const JobRequest& request, const Reach& reach, OutputPlan& output);

// Makes the request without name, priority and submit's other options. `contain` is --contain. `directory` is
// the user's. The umask is that of this process.
base::Result<v1::SubmitRequest> make_submission(JobRequest& request, const std::string& contain,
                                                const base::Environment& environment, const std::string& directory);

// Submits the job to launcherd and returns its id. Adds a new request_id if the request has none. Blocks.
// If no answer comes in time, launcherd may or may not have the job. The error then names the request_id. If the user
// submits again with that request_id, launcherd makes no second job.
base::Result<std::string> submit_once(const launcherd::LauncherAddress& launcher, v1::SubmitRequest request);

}  // namespace muster::cli::verbs
