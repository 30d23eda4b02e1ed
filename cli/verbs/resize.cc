// `muster resize` and `muster hosts add`: change the number of ranks of a job of launcherd.
#include "cli/verbs/resize.h"

#include <algorithm>

#include "base/strings.h"
#include "cli/verbs/found_jobs.h"
#include "cli/verbs/job_verbs.h"
#include "launcherd/service/api_client.h"
#include "model/placement.h"
#include "proto/message_json.h"

namespace muster::cli::inline verbs {
namespace {

using launcherd::ApiClient;

// Sends the request and prints the answer. Returns the exit code.
int send_resize(const VerbCall& call, const FoundJob& job, v1::ResizeRequest request, int before) {
  request.set_job(job.name_there());
  const auto answer = ApiClient(job.launcher).resize(request, kPatience);
  if (!answer.ok()) {
    if (answer.status().code() != base::Code::kUnimplemented) return job_not_answered(call, job, answer.status());
    return call.fail(fmt::format("job {}: only launcherd's jobs can be resized; start it by muster submit", job.id));
  }
  if (call.has("json")) return call.print(proto::message_line(*answer));
  if (answer->size() == before) return call.print(fmt::format("job {} has {} ranks\n", job.id, before));
  return call.print(fmt::format("job {} goes from {} to {} ranks: generation {} follows\n", job.id, before,
                                answer->size(), answer->attempt() + 1));
}

}  // namespace

std::optional<SizeChange> parse_size_change(std::string_view text) {
  if (text.size() < 2) return std::nullopt;
  const auto number = base::parse_decimal(text.substr(1), model::kMaxRanks);
  if (!number || *number == 0) return std::nullopt;
  const int ranks = static_cast<int>(*number);
  switch (text.front()) {
    case '=':
      return SizeChange{SizeChange::How::kTo, ranks};
    case '+':
      return SizeChange{SizeChange::How::kBy, ranks};
    case '-':
      return SizeChange{SizeChange::How::kBy, -ranks};
    default:
      return std::nullopt;
  }
}

// "-2" looks like an option, so it does not go through the table of options.
int run_resize(const std::string& verb, const std::vector<std::string>& arguments) {
  std::vector<std::string> others;
  std::vector<std::string> fewer;
  for (const std::string& argument : arguments) {
    (argument.starts_with('-') && parse_size_change(argument) ? fewer : others).push_back(argument);
  }
  const VerbCall call(verb, resize_doc(), others);
  if (call.exit_code()) return *call.exit_code();
  std::vector<std::string> words = call.words();
  words.insert(words.end(), fewer.begin(), fewer.end());
  if (words.size() != 2) return call.fail("name the job and its size: muster resize JOB +2, -2 or =12");
  const auto change = parse_size_change(words.back());
  if (!change) {
    return call.fail(fmt::format("'{}' is no size: write +2 for two ranks more, -2 for two fewer, =12 for twelve",
                                 base::printable(words.back())));
  }
  const auto job = job_named(call, words.front());
  if (!job.ok()) return call.fail(job.status());
  ApiClient client(job->launcher);
  const auto now = ask_job(client, *job, kNoRanks);
  if (!now.ok()) return job_not_answered(call, *job, now.status());
  const int size = change->from(now->size());
  if (size < 1) return call.fail(fmt::format("job {} has only {} ranks: muster kill ends it", job->id, now->size()));
  v1::ResizeRequest request;
  request.set_size(size);
  return send_resize(call, *job, std::move(request), now->size());
}

int add_hosts_to_job(const VerbCall& call) {
  if (call.words().size() < 3) return call.fail("name the job and the hosts: muster hosts add JOB HOST:SLOTS");
  v1::ResizeRequest request;
  for (std::size_t i = 2; i < call.words().size(); ++i) {
    const auto hosts = model::parse_host_list(call.words()[i], "HOST");
    if (!hosts.ok()) return call.fail(hosts.status());
    for (const model::HostSpec& host : *hosts) {
      v1::WantedHost& wanted = *request.add_add_hosts();
      wanted.set_name(host.name);
      wanted.set_slots(host.slots.value_or(0));
    }
  }
  const auto job = job_named(call, call.words()[1]);
  if (!job.ok()) return call.fail(job.status());
  ApiClient client(job->launcher);
  const auto now = ask_job(client, *job, kNoRanks);
  if (!now.ok()) return job_not_answered(call, *job, now.status());
  return send_resize(call, *job, std::move(request), now->size());
}

}  // namespace muster::cli::verbs
