// Finds the jobs that a verb's words name. It searches this user's foreground hvdruns on this host, and launcherd if
// one is found (cli/verbs/launcher_address.h).
// Thread: blocks.
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

inline constexpr std::chrono::seconds kPatience{20};  // longest wait for a launcher's answer
inline constexpr int kNoRanks = -1;                   // value of GetJobRequest.max_ranks that asks for no ranks

// A job and the launcher that runs it.
struct FoundJob {
  std::string id;
  launcherd::LauncherAddress launcher;

  // Returns the name of the job in requests to this launcher. Empty for a foreground job, whose launcher has only one.
  std::string name_there() const { return launcher.is_foreground_job ? std::string() : id; }
};

std::vector<FoundJob> foreground_jobs();

// Returns every page of launcherd's list. `all` includes jobs that have ended. `filter` is that of ListJobsRequest.
base::Result<std::vector<v1::Job>> list_all_jobs(launcherd::ApiClient& client, bool all,
                                                 const std::string& filter = {});

// Returns the job whose id is `word`, else the only one whose id begins with `word` or that has this name and has not
// ended. If there is none, returns the newest job of this name. JOB[INDEX] is an element of that job. If `word` is
// empty, returns the only job that has not ended. NOT_FOUND if there is none, INVALID_ARGUMENT if there are several;
// the message lists ids. Other errors mean that launcherd could not be asked.
base::Result<FoundJob> job_named(const VerbCall& call, const std::string& word);
// Replaces the jobs' words, as of --after, by their ids at this launcherd. The errors are those of job_named().
base::Status name_by_ids(const launcherd::LauncherAddress& launcher,
                         google::protobuf::RepeatedPtrField<v1::JobDependency>& after);
// Returns the job that the verb's only word names, or the only job if there is no word.
base::Result<FoundJob> one_job(const VerbCall& call);
// Does the same as one_job(), for verbs that only read. Without a word, if every job has ended, it returns the newest
// job, and a remark tells the user which one it is.
base::Result<FoundJob> one_job_or_newest(const VerbCall& call);

// Returns the job with at most `max_ranks` of its ranks. 0 means all; this may take several requests.
base::Result<v1::Job> ask_job(launcherd::ApiClient& client, const FoundJob& job, int max_ranks);

}  // namespace muster::cli::verbs
