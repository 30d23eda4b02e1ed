#include "cli/verbs/stacks.h"

#include <algorithm>

#include "base/strings.h"
#include "cli/verbs/found_jobs.h"
#include "cli/verbs/job_verbs.h"
#include "cli/verbs/verb.h"
#include "cli/view/stack_view.h"
#include "launcherd/service/api_client.h"

namespace muster::cli::inline verbs {
namespace {

constexpr int kMaxStackRank = 1'000'000;

struct StackCriteria {
  bool json = false;
  std::vector<int> ranks;
};

base::Result<StackCriteria> read_criteria(const VerbCall& call) {
  StackCriteria criteria;
  criteria.json = call.has("json");
  const Setting* const ranks = call.settings().find("rank");
  if (ranks == nullptr) return criteria;
  const auto list = base::parse_number_list(ranks->value, kMaxStackRank);
  if (!list || list->empty()) {
    return base::invalid_argument("{} must be a list as 0-3,7, not '{}'", ranks->label, base::printable(ranks->value));
  }
  criteria.ranks = *list;
  return criteria;
}

// Asks the launcher and prints the stacks. A launcher waits 10 s for its agents, which is less than kPatience.
int show(const VerbCall& call, const FoundJob& job, const StackCriteria& criteria) {
  v1::StacksRequest request;
  request.set_job(job.name_there());
  request.mutable_ranks()->Add(criteria.ranks.begin(), criteria.ranks.end());
  std::vector<v1::ProcessStack> processes;
  const base::Status fetched =
      launcherd::ApiClient(job.launcher).stacks(request, kPatience, [&](const v1::ProcessStack& process) {
        processes.push_back(process);
        return true;
      });
  // Hosts answer in any order. Sentences about hosts have no rank, so they come first.
  std::ranges::stable_sort(processes, {}, &v1::ProcessStack::rank);
  bool is_complete = true;
  std::string text;
  for (const v1::ProcessStack& process : processes) {
    is_complete = is_complete && process.problem().empty();
    text += criteria.json ? process_stack_json(process) : format_process_stack(process);
  }
  if (const int failed = call.print(text); failed != 0) return failed;
  if (!fetched.ok()) return job_not_answered(call, job, fetched);
  return is_complete ? 0 : kNotAnswered;
}

}  // namespace

int run_stacks(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, stacks_doc(), arguments);
  if (call.exit_code()) return *call.exit_code();
  const auto criteria = read_criteria(call);
  if (!criteria.ok()) return call.fail(criteria.status());
  const auto job = one_job(call);
  if (!job.ok()) return call.fail(job.status());
  return show(call, *job, *criteria);
}

}  // namespace muster::cli::verbs
