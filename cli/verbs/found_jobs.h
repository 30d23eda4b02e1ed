// The jobs that a verb's words mean: those of this user's foreground hvdruns on this host, and those of launcherd where
// there is one (cli/verbs/launcher_address.h). Blocks.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/verbs/verb.h"
#include "launcherd/service/api_client.h"
#include "launcherd/service/api_socket.h"

namespace muster::cli::inline verbs {

inline constexpr std::chrono::seconds kPatience{20};  // with a launcher that does not answer
inline constexpr int kNoRanks = -1;                   // GetJobRequest.max_ranks

// A job, and the launcher that knows it.
struct FoundJob {
  std::string id;
  launcherd::LauncherAddress launcher;

  // What requests to this launcher call the job.
  std::string name_there() const { return launcher.is_foreground_job ? std::string() : id; }
};

std::vector<FoundJob> foreground_jobs();

// Every page of launcherd's answer; `all`: also those that have ended.
base::Result<std::vector<v1::Job>> list_all_jobs(launcherd::ApiClient& client, bool all);

// The job whose id begins with `word`, or whose name it is; without a word the only one that has not ended. NOT_FOUND,
// INVALID_ARGUMENT (several): one sentence with the ids that there are. Others: launcherd could not be asked.
base::Result<FoundJob> job_named(const VerbCall& call, const std::string& word);
// The one that the verb's only word names, if any.
base::Result<FoundJob> one_job(const VerbCall& call);
// For verbs that only read. Without a word, and if every job has ended: the newest job, and a remark says which it is.
base::Result<FoundJob> one_job_or_newest(const VerbCall& call);

// The job with `max_ranks` of its ranks; 0: all, in as many questions as it takes.
base::Result<v1::Job> ask_job(launcherd::ApiClient& client, const FoundJob& job, int max_ranks);

}  // namespace muster::cli::verbs
