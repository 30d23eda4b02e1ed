#include "cli/stacks.h"

#include <algorithm>
#include <cstdio>

#include "base/print.h"
#include "base/strings.h"
#include "cli/found_jobs.h"
#include "cli/help.h"
#include "cli/settings.h"
#include "cli/stack_view.h"
#include "cli/standard_streams.h"
#include "launcherd/service/api_client.h"

namespace muster::cli {
namespace {

constexpr int kNotAll = 1;
constexpr int kUsageError = 2;
constexpr int kMaxRank = 1'000'000;
// An hvdrun gives its agents 10 s.
constexpr std::chrono::seconds kPatience{20};

int fail(const std::string& message, int code = kUsageError) {
  base::print_remark("muster stacks: {}\n", message);
  return code;
}

struct Wish {
  bool json = false;
  std::vector<int> ranks;
};

base::Result<Wish> read_wish(const CommandLine& line) {
  Wish wish;
  Settings settings;
  MUSTER_RETURN_IF_ERROR(settings.add_layer(settings_of(line)));
  wish.json = settings.find("json") != nullptr;
  const Setting* const ranks = settings.find("rank");
  if (ranks == nullptr) return wish;
  const auto list = base::parse_number_list(ranks->value, kMaxRank);
  if (!list || list->empty()) {
    return base::error(base::Code::kInvalidArgument, "{} must be a list as 0-3,7, not '{}'", ranks->label,
                       base::printable(ranks->value));
  }
  wish.ranks = *list;
  return wish;
}

int show(const launcherd::FoundLauncher& job, const Wish& wish) {
  std::vector<v1::ProcessStack> processes;
  const base::Status fetched = launcherd::ApiClient(job.path).stacks(
      wish.ranks, kPatience, [&](const v1::ProcessStack& process) { processes.push_back(process); });
  // Hosts answer in any order; sentences on hosts come first.
  std::ranges::stable_sort(processes, {}, &v1::ProcessStack::rank);
  bool is_whole = true;
  std::string text;
  for (const v1::ProcessStack& process : processes) {
    is_whole = is_whole && process.problem().empty();
    text += wish.json ? process_stack_json(process) : format_process_stack(process);
  }
  if (const int failed = print_answer("muster stacks", text); failed != 0) return failed;
  if (!fetched.ok()) return fail(fmt::format("job {}: {}", job.job_id, base::printable(fetched.message())), kNotAll);
  return is_whole ? 0 : kNotAll;
}

}  // namespace

int run_stacks(const std::string&, const std::vector<std::string>& arguments) {
  const auto line = read_verb_line(arguments, stacks_flags());
  if (!line.ok()) return fail(line.status().message());
  if (line->options.is_answered) {
    return print_answer("muster stacks", help_text(stacks_doc()));
  }
  const auto wish = read_wish(line->options);
  if (!wish.ok()) return fail(wish.status().message());
  const auto job = one_job(line->words);
  if (!job.ok()) return fail(job.status().message());
  return show(*job, *wish);
}

}  // namespace muster::cli
