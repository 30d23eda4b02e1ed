// This file runs the verbs jobs, status, kill and events; each has a run_…() function.
// Read kill_and_wait() first; all others send one request and print the answer.
#include "cli/verbs/job_verbs.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include "base/clock.h"
#include "base/env.h"
#include "base/signal_name.h"
#include "base/strings.h"
#include "cli/verbs/follow_job.h"
#include "cli/verbs/found_jobs.h"
#include "cli/verbs/launcher_address.h"
#include "cli/verbs/verb.h"
#include "cli/view/array_table.h"
#include "cli/view/job_table.h"
#include "cli/view/report.h"
#include "cli/view/short_rows.h"
#include "launcherd/service/api_client.h"
#include "proto/message_json.h"

namespace muster::cli::inline verbs {
namespace {

using launcherd::ApiClient;

// Ends the job and waits for its end. Returns the exit code.
// Starts the watch first, because the job and its launcher may be gone soon after the kill. The first event, such as
// the job's start, shows that the watch works, so kill the job then.
int kill_and_wait(const VerbCall& call, const FoundJob& job, bool at_once) {
  ApiClient client(job.launcher);
  const auto now = ask_job(client, job, kNoRanks);
  if (!now.ok()) return job_not_answered(call, job, now.status());
  std::optional<base::Status> sent;
  const auto kill = [&] {
    v1::KillRequest request;
    request.set_job(job.name_there());
    request.set_at_once(at_once);
    sent = ApiClient(job.launcher).kill(request, kPatience);  // a client of its own, because `client` may be watching
  };
  if (now->has_element() && now->last_event() == 0) {  // it has not started, so there is nothing to watch
    kill();
    return sent->ok() ? print_job(call, job, "") : job_not_answered(call, job, *sent);
  }
  Reconnecting reconnecting([&](const std::string& line) { call.fail(line); }, -1);
  const auto ended = watch_to_end(client, job, now->last_event(), reconnecting, [&](const v1::Event&) {
    if (!sent) kill();
    return sent->ok();
  });
  if (sent && !sent->ok()) return job_not_answered(call, job, *sent);
  if (!ended.ok()) return job_not_answered(call, job, ended.status());
  if (call.has("json")) {
    return call.print(proto::message_line(job_at_end(*now, **ended, base::SystemClock().wall())));
  }
  return call.print(fmt::format("job {} ended with exit code {}\n", job.id, (*ended)->exit_code));
}

// Returns lines that begin with an empty one, from the event of the job's end. Empty if no rank failed, or if the event
// cannot be read: the status itself is shown all the same.
std::vector<std::string> report_of(ApiClient& client, const FoundJob& found, const v1::Job& job) {
  std::vector<std::string> lines;
  v1::WatchRequest request;
  request.set_job(found.name_there());
  // A failure of the command of --notify may follow the end.
  request.set_from_sequence(std::max<std::uint64_t>(job.last_event(), 2) - 1);
  const base::Status watched = client.watch(request, [&](const v1::Event& event) {
    if (event.has_job_ended()) lines = format_report(event.job_ended());
    return !event.has_job_ended();
  });
  if (!watched.ok() && lines.empty()) {
    lines = {"", "why it failed cannot be read: " + base::printable(watched.message())};
    for (const std::string& hint : job.hints()) lines.push_back(base::printable(hint));
    return lines;
  }
  if (!lines.empty()) lines.insert(lines.begin(), "");
  return lines;
}

// Asks for the job before it sends the signal, because the job and its launcher may end by it.
int send_signal(const VerbCall& call, const FoundJob& job, int signo) {
  ApiClient client(job.launcher);
  std::string text;
  if (call.has("json")) {
    const auto now = ask_job(client, job, kNoRanks);
    if (!now.ok()) return job_not_answered(call, job, now.status());
    text = proto::message_line(*now);
  }
  v1::SignalRequest request;
  request.set_job(job.name_there());
  request.set_signal(signo);
  const base::Status sent = client.signal(request, kPatience);
  return sent.ok() ? call.print(text) : job_not_answered(call, job, sent);
}

}  // namespace

int job_not_answered(const VerbCall& call, const FoundJob& job, const base::Status& status) {
  return call.fail(fmt::format("job {}: {}", job.id, base::printable(status.message())), kNotAnswered);
}

int print_job(const VerbCall& call, const FoundJob& job, const std::string& text) {
  if (!call.has("json")) return call.print(text);
  ApiClient client(job.launcher);
  const auto now = ask_job(client, job, kNoRanks);
  return now.ok() ? call.print(proto::message_line(*now)) : job_not_answered(call, job, now.status());
}

std::string no_jobs_remark(bool all, bool filtered) {
  if (filtered) return all ? "no job has all these words" : "no job that runs or waits has all these words: try --all";
  return all ? "launcherd knows no job" : "no job runs or waits: muster jobs --all also lists those that have ended";
}

int run_jobs(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, jobs_doc(), arguments);
  if (call.exit_code()) return *call.exit_code();
  if (!call.words().empty()) {
    return call.fail(
        fmt::format("'{}' is a word too many: muster status shows one job", base::printable(call.words().front())));
  }
  int exit_code = 0;
  std::vector<v1::Job> jobs;
  const Setting* const filter = call.settings().find("filter");
  for (const FoundJob& found : filter == nullptr ? foreground_jobs() : std::vector<FoundJob>()) {
    ApiClient client(found.launcher);
    auto job = ask_job(client, found, kNoRanks);
    // UNAVAILABLE means that the job has ended since foreground_jobs() found it, so it is no failure.
    if (job.ok()) jobs.push_back(std::move(*job));
    if (!job.ok() && job.status().code() != base::Code::kUnavailable) job_not_answered(call, found, job.status());
  }
  const auto daemon = find_launcherd(call.settings(), base::Environment::current());
  if (!daemon.ok()) return call.fail(daemon.status());
  if (*daemon) {
    ApiClient client(**daemon);
    auto listed = list_all_jobs(client, call.has("all"), filter == nullptr ? std::string() : filter->value);
    if (!listed.ok()) exit_code = call.fail(listed.status());
    if (listed.ok()) std::move(listed->begin(), listed->end(), std::back_inserter(jobs));
  } else if (call.has("all") || filter != nullptr) {
    exit_code = call.fail(need_launcherd(call.settings(), base::Environment::current()).status());
  }
  std::string text;
  const base::WallTime now = base::SystemClock().wall();
  const std::size_t most = rows_on_screen(false);
  if (!call.has("json")) text = call.has("wide") ? format_wide_jobs(jobs, now, most) : format_jobs(jobs, now, most);
  for (const v1::Job& job : jobs) {
    if (call.has("json")) text += proto::message_line(job);
  }
  const bool is_seen = !call.has("json") && ::isatty(STDERR_FILENO) == 1;
  if (jobs.empty() && exit_code == 0 && is_seen) call.remark(no_jobs_remark(call.has("all"), filter != nullptr));
  const int printed = call.print(text);
  return printed != 0 ? printed : exit_code;
}

namespace {

// Returns the table of an array's elements, with at most `most` ranges.
base::Result<std::string> elements_of(ApiClient& client, const FoundJob& found, std::size_t most) {
  std::vector<v1::ElementRange> ranges;
  v1::ListElementsRequest request;
  request.set_job(found.name_there());
  request.set_page_size(static_cast<int>(std::min<std::size_t>(most, 1000)));
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const v1::ListElementsResponse page, client.list_elements(request, kPatience));
    ranges.insert(ranges.end(), page.elements().begin(), page.elements().end());
    const bool is_last = page.next_page_token().empty();
    if (is_last || ranges.size() >= most) return format_elements(ranges, !is_last);
    request.set_page_token(page.next_page_token());
  }
}

}  // namespace

int run_status(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, status_doc(), arguments);
  if (call.exit_code()) return *call.exit_code();
  const auto found = one_job_or_newest(call);
  if (!found.ok()) return call.fail(found.status());
  ApiClient client(found->launcher);
  const auto job = ask_job(client, *found, 0);
  if (!job.ok()) return job_not_answered(call, *found, job.status());
  if (call.has("json")) return call.print(proto::message_line(*job));
  constexpr std::size_t kTables = 2;
  std::string text = format_status(*job, base::SystemClock().wall(), rows_on_screen(call.has("all"), kTables));
  if (job->has_array()) {
    const auto elements = elements_of(client, *found, rows_on_screen(call.has("all")));
    if (!elements.ok()) return job_not_answered(call, *found, elements.status());
    text += *elements;
  } else if (job->state() == v1::JOB_STATE_FAILED) {
    for (const std::string& line : report_of(client, *found, *job)) text += "\n" + line;
    if (!text.ends_with('\n')) text += '\n';
  }
  return call.print(text);
}

int run_kill(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, kill_doc(), arguments);
  if (call.exit_code()) return *call.exit_code();
  if (call.words().empty()) return call.fail("which job? muster jobs lists them");
  std::optional<int> signo;
  if (const Setting* const name = call.settings().find("signal")) {
    signo = base::signal_named(name->value);
    if (!signo)
      return call.fail(fmt::format("{}: unknown signal {}; use a name such as USR1, or a number", name->label,
                                   base::printable(name->value)));
  }
  std::vector<FoundJob> jobs;
  for (const std::string& word : call.words()) {
    const auto job = job_named(call, word);
    if (!job.ok()) return call.fail(job.status());
    jobs.push_back(*job);
  }
  int exit_code = 0;
  for (const FoundJob& job : jobs) {
    const int ended = signo ? send_signal(call, job, *signo) : kill_and_wait(call, job, call.has("now"));
    if (ended != 0) exit_code = ended;
  }
  return exit_code;
}

int run_events(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, events_doc(), arguments);
  if (call.exit_code()) return *call.exit_code();
  const auto found = one_job_or_newest(call);
  if (!found.ok()) return call.fail(found.status());
  ApiClient client(found->launcher);
  const auto job = ask_job(client, *found, kNoRanks);
  if (!job.ok()) return job_not_answered(call, *found, job.status());
  const bool follow = call.has("follow");
  if (!follow && job->last_event() == 0) return 0;
  int failed = 0;
  Reconnecting reconnecting([&](const std::string& line) { call.fail(line); }, -1);
  const auto watched = watch_to_end(client, *found, 0, reconnecting, [&](const v1::Event& event) {
    failed = call.print(call.has("json") ? proto::message_line(event) : format_event(event));
    return failed == 0 && (follow || event.sequence() < job->last_event());
  });
  if (failed != 0) return failed;
  return watched.ok() ? 0 : job_not_answered(call, *found, watched.status());
}

}  // namespace muster::cli::verbs
