#include "cli/verbs/stacks.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/file.h"
#include "base/print.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "cli/verbs/found_jobs.h"
#include "cli/verbs/job_verbs.h"
#include "cli/verbs/verb.h"
#include "cli/view/hang_view.h"
#include "cli/view/stack_svg.h"
#include "cli/view/stack_view.h"
#include "launcherd/service/api_client.h"
#include "proto/hang_convert.h"
#include "proto/message_json.h"

namespace muster::cli::inline verbs {
namespace {

constexpr int kMaxStackRank = 1'000'000;

struct StackCriteria {
  bool json = false;
  bool tree = false;
  bool native = false;
  bool explain = false;
  std::string svg;  // a path; empty means none
  std::vector<int> ranks;
};

base::Result<StackCriteria> read_criteria(const VerbCall& call) {
  StackCriteria criteria;
  criteria.json = call.has("json");
  criteria.tree = call.has("tree");
  criteria.native = call.has("native");
  criteria.explain = call.has("explain");
  if (const Setting* const svg = call.settings().find("svg"); svg != nullptr) criteria.svg = svg->value;
  if (criteria.json && criteria.tree) return base::invalid_argument("--json and --tree exclude each other");
  const Setting* const ranks = call.settings().find("rank");
  if (criteria.explain && (criteria.tree || criteria.native || !criteria.svg.empty() || ranks != nullptr)) {
    return base::invalid_argument("--explain looks at all ranks: only --json goes with it");
  }
  if (ranks == nullptr) return criteria;
  const auto list = base::parse_number_list(ranks->value, kMaxStackRank);
  if (!list || list->empty()) {
    return base::invalid_argument("{} must be a list as 0-3,7, not '{}'", ranks->label, base::printable(ranks->value));
  }
  criteria.ranks = *list;
  return criteria;
}

std::string text_of(const std::vector<v1::ProcessStack>& processes, const StackCriteria& criteria) {
  if (criteria.tree) return format_stack_tree(processes);
  if (!criteria.json) return format_stack_classes(processes);
  std::string text;
  for (const v1::ProcessStack& process : processes) text += process_stack_json(process);
  return text;
}

// Keeps an older picture if no stack was read.
base::Status draw(const std::string& path, const std::vector<v1::ProcessStack>& processes) {
  if (std::ranges::any_of(processes, [](const v1::ProcessStack& process) { return process.threads_size() > 0; })) {
    return write_picture(path, stack_svg(processes));
  }
  base::print_remark("muster stacks: no stacks were read, so {} was not written\n", base::printable(path));
  return base::ok_status();
}

// Asks the launcher and prints the stacks. A launcher waits 10 s for its agents, which is less than kPatience.
int show(const VerbCall& call, const FoundJob& job, const StackCriteria& criteria) {
  v1::StacksRequest request;
  request.set_job(job.name_there());
  request.set_native(criteria.native);
  request.mutable_ranks()->Add(criteria.ranks.begin(), criteria.ranks.end());
  std::vector<v1::ProcessStack> processes;
  const base::Status fetched =
      launcherd::ApiClient(job.launcher).stacks(request, kPatience, [&](const v1::ProcessStack& process) {
        processes.push_back(process);
        return true;
      });
  // Hosts answer in any order. Sentences about hosts have no rank, so they come first.
  std::ranges::stable_sort(processes, {}, &v1::ProcessStack::rank);
  if (!criteria.svg.empty()) {
    const base::Status drawn = draw(criteria.svg, processes);
    if (!drawn.ok()) return call.fail(drawn.message(), kMusterFailed);
  }
  if (const int failed = call.print(text_of(processes, criteria)); failed != 0) return failed;
  if (!fetched.ok()) return job_not_answered(call, job, fetched);
  return are_stacks_read(processes) ? 0 : kNotAnswered;
}

// Asks the launcher which ranks hold the job up. It looks at the ranks for some seconds.
int explain(const VerbCall& call, const FoundJob& job, bool json) {
  v1::ExplainHangRequest request;
  request.set_job(job.name_there());
  const auto answer = launcherd::ApiClient(job.launcher).explain_hang(request, kPatience);
  if (!answer.ok()) return job_not_answered(call, job, answer.status());
  const model::HangReport report = proto::hang_report_of(*answer);
  std::string text;
  if (json) {
    text = proto::message_line(*answer);
  } else {
    for (const std::string& line : format_hang(report, {.job = job.id, .is_asked_for = true})) text += line + "\n";
  }
  if (const int failed = call.print(text); failed != 0) return failed;
  if (report.has_suspects()) return kHasSuspects;
  return report.silent_hosts.empty() ? 0 : kHostsSilent;
}

}  // namespace

base::Status write_picture(const std::string& path, std::string_view text) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return base::write_file_atomically(path, text, 0644);
  const base::UniqueFd file(::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC));
  if (!file.valid()) return base::errno_error(errno, "open " + base::printable(path));
  return base::write_all_blocking(file.get(), text.data(), text.size());
}

int run_stacks(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, stacks_doc(), arguments);
  if (call.exit_code()) return *call.exit_code();
  const auto criteria = read_criteria(call);
  if (!criteria.ok()) return call.fail(criteria.status());
  const auto job = one_job(call);
  if (!job.ok()) return call.fail(job.status());
  return criteria->explain ? explain(call, *job, criteria->json) : show(call, *job, *criteria);
}

}  // namespace muster::cli::verbs
