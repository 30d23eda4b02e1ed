#include "cli/verbs/stacks.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/clock.h"
#include "base/file.h"
#include "base/print.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "cli/options/setting_reader.h"
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
constexpr long kMostSamples = 1000;
constexpr std::chrono::milliseconds kSamplePeriod{100};

struct StackCriteria {
  bool json = false;
  bool tree = false;
  bool native = false;
  bool explain = false;
  int samples = 1;
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
  SettingReader read(call.settings());
  read.number("samples", 1, kMostSamples, criteria.samples);
  MUSTER_RETURN_IF_ERROR(read.status());
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

// The answers of all samples.
struct Samples {
  StackClasses classes;
  std::string json;         // a line for each process and look, if the user wants that
  bool has_stacks = false;  // a stack was read
  bool are_read = true;     // nothing could not be read
};

void add_sample(std::vector<v1::ProcessStack> processes, const StackCriteria& criteria, Samples* samples) {
  // Hosts answer in any order. Sentences about hosts have no rank, so they come first.
  std::ranges::stable_sort(processes, {}, &v1::ProcessStack::rank);
  add_look(classify_stacks(processes), &samples->classes);
  for (const v1::ProcessStack& process : processes) {
    if (process.threads_size() > 0) samples->has_stacks = true;
    if (criteria.json) samples->json += process_stack_json(process);
  }
  if (!are_stacks_read(processes)) samples->are_read = false;
}

std::string text_of(const Samples& samples, const StackCriteria& criteria) {
  if (criteria.json) return samples.json;
  return criteria.tree ? format_stack_tree(samples.classes) : format_stack_classes(samples.classes);
}

// Keeps an older picture if no stack was read.
base::Status draw(const std::string& path, const Samples& samples) {
  if (samples.has_stacks) return write_picture(path, stack_svg(samples.classes));
  base::print_remark("muster stacks: no stacks were read, so {} was not written\n", base::printable(path));
  return base::ok_status();
}

// Looks at the job as often as asked for. Stops at the first failure of the launcher.
base::Status look(const FoundJob& job, const v1::StacksRequest& request, const StackCriteria& criteria,
                  Samples* samples) {
  launcherd::ApiClient client(job.launcher);
  for (int i = 0; i < criteria.samples; ++i) {
    const auto next = base::monotonic_now() + kSamplePeriod;
    std::vector<v1::ProcessStack> processes;
    const base::Status fetched = client.stacks(request, kPatience, [&](const v1::ProcessStack& process) {
      processes.push_back(process);
      return true;
    });
    add_sample(std::move(processes), criteria, samples);
    MUSTER_RETURN_IF_ERROR(fetched);
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(next - base::monotonic_now()).count();
    if (i + 1 < criteria.samples && rest > 0) ::poll(nullptr, 0, static_cast<int>(rest));
  }
  return base::ok_status();
}

// Asks the launcher and prints the stacks. A launcher waits 10 s for its agents, which is less than kPatience.
int show(const VerbCall& call, const FoundJob& job, const StackCriteria& criteria) {
  v1::StacksRequest request;
  request.set_job(job.name_there());
  request.set_native(criteria.native);
  request.mutable_ranks()->Add(criteria.ranks.begin(), criteria.ranks.end());
  Samples samples;
  const base::Status fetched = look(job, request, criteria, &samples);
  if (!criteria.svg.empty()) {
    const base::Status drawn = draw(criteria.svg, samples);
    if (!drawn.ok()) return call.fail(drawn.message(), kMusterFailed);
  }
  if (const int failed = call.print(text_of(samples, criteria)); failed != 0) return failed;
  if (!fetched.ok()) return job_not_answered(call, job, fetched);
  return samples.are_read ? 0 : kNotAnswered;
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
