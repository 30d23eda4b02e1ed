#include "cli/job_verbs.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/clock.h"
#include "base/print.h"
#include "base/strings.h"
#include "cli/found_jobs.h"
#include "cli/help.h"
#include "cli/job_table.h"
#include "cli/settings.h"
#include "cli/standard_streams.h"
#include "launcherd/service/api_client.h"
#include "proto/message_json.h"

namespace muster::cli {
namespace {

using launcherd::ApiClient;
using launcherd::FoundLauncher;

constexpr int kNotAnswered = 1;
constexpr int kUsageError = 2;
constexpr int kNoRanks = -1;
constexpr int kHighestSignal = 64;
constexpr std::chrono::seconds kPatience{20};

int fail(const std::string& verb, const std::string& message, int code = kUsageError) {
  base::print_remark("muster {}: {}\n", verb, message);
  return code;
}

int not_answered(const std::string& verb, const FoundLauncher& job, const base::Status& status) {
  return fail(verb, fmt::format("job {}: {}", job.job_id, base::printable(status.message())), kNotAnswered);
}

int answer(const std::string& verb, const std::string& text) {
  return print_answer("muster " + verb, text);
}

bool is_set(const VerbLine& line, std::string_view name) {
  return std::ranges::any_of(line.options.options, [&](const GivenOption& given) { return given.flag->name == name; });
}

// The line, or the exit code when it is answered already.
struct Read {
  std::optional<VerbLine> line;
  int exit_code = 0;
};
Read read(const std::string& verb, const CommandDoc& doc, const std::vector<std::string>& arguments) {
  auto line = read_verb_line(arguments, *doc.table);
  if (!line.ok()) return {.line = {}, .exit_code = fail(verb, line.status().message())};
  if (!line->options.is_answered) return {.line = std::move(*line)};
  return {.line = {}, .exit_code = answer(verb, help_text(doc))};
}

std::optional<int> signal_named(std::string_view text) {
  if (const auto number = base::parse_decimal(text, kHighestSignal); number && *number > 0) {
    return static_cast<int>(*number);
  }
  if (text.starts_with("SIG")) text.remove_prefix(3);
  for (int signo = 1; signo <= kHighestSignal; ++signo) {
    const char* const name = ::sigabbrev_np(signo);
    if (name != nullptr && text == name) return signo;
  }
  return std::nullopt;
}

// The exit code.
int kill_and_wait(const std::string& verb, const FoundLauncher& job, bool at_once) {
  ApiClient client(job.path);
  const base::Status told = client.kill(at_once, kPatience);
  if (!told.ok()) return not_answered(verb, job, told);
  int exit_code = -1;
  const base::Status watched = client.watch(0, [&](const v1::Event& event) {
    if (event.has_job_ended()) exit_code = event.job_ended().exit_code();
    return true;
  });
  if (exit_code < 0) return watched.ok() ? 0 : not_answered(verb, job, watched);
  return answer(verb, fmt::format("job {} ended with exit code {}\n", job.job_id, exit_code));
}

}  // namespace

int run_jobs(const std::string& verb, const std::vector<std::string>& arguments) {
  const Read given = read(verb, jobs_doc(), arguments);
  if (!given.line) return given.exit_code;
  if (!given.line->words.empty()) {
    return fail(verb, fmt::format("'{}' is a word too many: muster status shows one job",
                                  base::printable(given.line->words.front())));
  }
  std::vector<v1::Job> jobs;
  for (const FoundLauncher& launcher : running_jobs()) {
    auto job = ApiClient(launcher.path).get_job(0, kNoRanks, kPatience);
    // UNAVAILABLE: it has ended since it was found.
    if (job.ok()) jobs.push_back(std::move(*job));
    if (!job.ok() && job.status().code() != base::Code::kUnavailable) not_answered(verb, launcher, job.status());
  }
  if (!is_set(*given.line, "json")) return answer(verb, format_jobs(jobs, base::SystemClock().wall()));
  std::string lines;
  for (const v1::Job& job : jobs) lines += proto::message_line(job);
  return answer(verb, lines);
}

int run_status(const std::string& verb, const std::vector<std::string>& arguments) {
  const Read given = read(verb, status_doc(), arguments);
  if (!given.line) return given.exit_code;
  const auto found = one_job(given.line->words);
  if (!found.ok()) return fail(verb, found.status().message());
  ApiClient client(found->path);
  auto job = client.get_job(0, 0, kPatience);
  while (job.ok() && job->ranks_size() < job->size()) {  // a large job comes in several answers
    auto more = client.get_job(job->ranks_size(), 0, kPatience);
    if (more.ok() && more->ranks().empty()) break;
    if (!more.ok()) return not_answered(verb, *found, more.status());
    job->mutable_ranks()->MergeFrom(more->ranks());
  }
  if (!job.ok()) return not_answered(verb, *found, job.status());
  return answer(
      verb, is_set(*given.line, "json") ? proto::message_line(*job) : format_status(*job, base::SystemClock().wall()));
}

int run_kill(const std::string& verb, const std::vector<std::string>& arguments) {
  const Read given = read(verb, kill_doc(), arguments);
  if (!given.line) return given.exit_code;
  Settings settings;
  if (const base::Status set = settings.add_layer(settings_of(given.line->options)); !set.ok()) {
    return fail(verb, set.message());
  }
  if (given.line->words.empty()) return fail(verb, "which job? muster jobs lists them");
  std::optional<int> signo;
  if (const Setting* const name = settings.find("signal")) {
    signo = signal_named(name->value);
    if (!signo) return fail(verb, fmt::format("{}: there is no signal {}", name->label, base::printable(name->value)));
  }
  std::vector<FoundLauncher> jobs;
  for (const std::string& word : given.line->words) {
    const auto job = job_named(word);
    if (!job.ok()) return fail(verb, job.status().message());
    jobs.push_back(*job);
  }
  int exit_code = 0;
  for (const FoundLauncher& job : jobs) {
    int ended = 0;
    if (!signo) {
      ended = kill_and_wait(verb, job, settings.find("now") != nullptr);
    } else if (const base::Status sent = ApiClient(job.path).signal(*signo, kPatience); !sent.ok()) {
      ended = not_answered(verb, job, sent);
    }
    if (ended != 0) exit_code = ended;
  }
  return exit_code;
}

int run_events(const std::string& verb, const std::vector<std::string>& arguments) {
  const Read given = read(verb, events_doc(), arguments);
  if (!given.line) return given.exit_code;
  const auto found = one_job(given.line->words);
  if (!found.ok()) return fail(verb, found.status().message());
  ApiClient client(found->path);
  const auto job = client.get_job(0, kNoRanks, kPatience);
  if (!job.ok()) return not_answered(verb, *found, job.status());
  const bool json = is_set(*given.line, "json");
  const bool follow = is_set(*given.line, "follow");
  int failed = 0;
  const base::Status watched = client.watch(0, [&](const v1::Event& event) {
    failed = answer(verb, json ? proto::message_line(event) : format_event(event));
    return failed == 0 && (follow || event.sequence() < job->last_event());
  });
  if (failed != 0) return failed;
  return watched.ok() ? 0 : not_answered(verb, *found, watched);
}

}  // namespace muster::cli
