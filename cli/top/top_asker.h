// TopAsker asks launcherd and the user's foreground hvdruns what `muster top` shows.
//
// Thread: one at a time, except for cancel(). The calls block.
// Errors: are a part of the answers, because a screen shows what it has.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "cli/top/job_pager.h"
#include "cli/top/top_query.h"
#include "cli/verbs/found_jobs.h"
#include "cli/view/top_view.h"
#include "launcherd/service/api_client.h"

namespace muster::cli::inline top {

class TopAsker {
 public:
  // nullopt: there is no launcherd.
  explicit TopAsker(const std::optional<launcherd::LauncherAddress>& launcher);
  TopAsker(const TopAsker&) = delete;
  TopAsker& operator=(const TopAsker&) = delete;

  const std::string& address() const { return address_; }  // empty without launcherd

  // Asks for all hosts and all open jobs.
  TopSample sample();
  // Asks for what a screen needs.
  TopAnswer answer(const TopQuery& query);
  // Ends a running call early, and all later ones. Any thread.
  void cancel();

 private:
  base::Status ask_launcherd(TopAnswer& answer);
  base::Result<std::int64_t> count_jobs(std::initializer_list<v1::JobState> states);
  base::Status ask_host_jobs(TopAnswer& answer);
  void ask_foreground(std::vector<v1::Job>& jobs);
  void ask_job(TopAnswer& answer);

  std::string address_;
  std::optional<launcherd::ApiClient> client_;
  JobPager pager_;
  std::map<std::string, FoundJob> foreground_;  // by id, as found last
};

}  // namespace muster::cli::top
