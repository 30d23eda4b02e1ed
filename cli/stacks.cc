#include "cli/stacks.h"

#include <algorithm>
#include <cstdio>

#include "base/strings.h"
#include "cli/command_line.h"
#include "cli/help.h"
#include "cli/settings.h"
#include "cli/stack_view.h"
#include "launcherd/service/api_client.h"
#include "launcherd/service/api_socket.h"

namespace muster::cli {
namespace {

constexpr int kNotAll = 1;
constexpr int kUsageError = 2;
constexpr int kMaxRank = 1'000'000;
// An hvdrun gives its agents 10 s.
constexpr std::chrono::seconds kPatience{20};

int fail(const std::string& message, int code = kUsageError) {
  fmt::print(stderr, "muster stacks: {}\n", message);
  return code;
}

base::Result<launcherd::FoundLauncher> choose_job(const std::vector<std::string>& words) {
  if (words.size() > 1) {
    return base::error(base::Code::kInvalidArgument, "one job at a time: {} is one word too many",
                       base::printable(words[1]));
  }
  const auto found = launcherd::find_launchers(launcherd::api_directories(base::Environment::current()));
  std::vector<launcherd::FoundLauncher> meant;
  std::vector<std::string> ids;
  for (const launcherd::FoundLauncher& launcher : found) {
    if (words.empty() || launcher.job_id.starts_with(words.front())) meant.push_back(launcher);
    ids.push_back(launcher.job_id);
  }
  if (meant.size() == 1) return meant.front();
  if (found.empty()) return base::error(base::Code::kNotFound, "no hvdrun of yours runs on this host");
  if (meant.empty()) {
    return base::error(base::Code::kNotFound, "no job begins with {}: there are {}", base::printable(words.front()),
                       base::join(ids, ", "));
  }
  return base::error(base::Code::kInvalidArgument, "which job? There are {}", base::join(ids, ", "));
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
  const base::Status fetched = launcherd::fetch_stacks(
      job.path, wish.ranks, kPatience, [&](const v1::ProcessStack& process) { processes.push_back(process); });
  // Hosts answer in any order; sentences on hosts come first.
  std::ranges::stable_sort(processes, {}, &v1::ProcessStack::rank);
  bool is_whole = true;
  for (const v1::ProcessStack& process : processes) {
    is_whole = is_whole && process.problem().empty();
    fmt::print("{}", wish.json ? process_stack_json(process) : format_process_stack(process));
  }
  if (!fetched.ok()) return fail(fmt::format("job {}: {}", job.job_id, base::printable(fetched.message())), kNotAll);
  return is_whole ? 0 : kNotAll;
}

}  // namespace

int run_stacks(const std::string&, const std::vector<std::string>& arguments) {
  // The id may stand before or after the options.
  std::vector<std::string> words;
  std::vector<std::string> rest = arguments;
  CommandLine line;
  while (true) {
    auto split = split_command_line(rest, stacks_flags());
    if (!split.ok()) return fail(split.status().message());
    line.options.insert(line.options.end(), split->options.begin(), split->options.end());
    if (split->is_answered) {
      fmt::print("{}", help_text(stacks_doc()));
      return 0;
    }
    if (split->command.empty()) break;
    words.push_back(split->command.front());
    rest.assign(split->command.begin() + 1, split->command.end());
  }
  const auto wish = read_wish(line);
  if (!wish.ok()) return fail(wish.status().message());
  const auto job = choose_job(words);
  if (!job.ok()) return fail(job.status().message());
  return show(*job, *wish);
}

}  // namespace muster::cli
