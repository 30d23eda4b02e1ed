// Fuzzes the parsers of requests, tables and paths that lead into a running job. Input: one letter, then
//   r  an ExecRequest from a caller: it is accepted, or the message names the field
//   t  a RankTable from a launcher: it becomes a table with the same columns in each line
//   p  a line of two paths of muster cp
//   h  the beginning of a download
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "agent/job/rank_table.h"
#include "cli/verbs/copy_path.h"
#include "launcherd/run/exec_request.h"
#include "proto/muster/v1/launcher.pb.h"

namespace {

using namespace muster;

void check_refusal(const base::Status& status) {
  if (status.ok()) return;
  MUSTER_CHECK(status.code() == base::Code::kInvalidArgument);
  MUSTER_CHECK(status.message().find('\n') == std::string::npos);
  const std::string field = status.message().substr(0, status.message().find(':'));
  MUSTER_CHECK(v1::ExecRequest::descriptor()->FindFieldByName(field) != nullptr);
}

void check_request(const std::string& input) {
  v1::ExecRequest request;
  if (!request.ParseFromString(input)) return;
  const base::Status first = launcherd::check_first_request(request);
  check_refusal(first);
  check_refusal(launcherd::check_next_request(request));
  if (!first.ok()) return;
  MUSTER_CHECK(request.shell() != (request.command_size() > 0));
  for (const std::string& word : request.command()) MUSTER_CHECK(word.find('\0') == std::string::npos);
  for (const int size : {1, 3}) {
    const auto rank = launcherd::rank_of_request(request, size);
    check_refusal(rank.status());
    MUSTER_CHECK(!rank.ok() || (*rank >= 0 && *rank < size));
  }
}

void check_table(const std::string& input) {
  v1::RankTable table;
  if (!table.ParseFromString(input)) return;
  std::int64_t ranks = 0;
  for (const v1::RankTableHost& host : table.hosts()) ranks += host.ranks_size();
  const std::string text = agent::rank_table_text(table);
  MUSTER_CHECK(std::ranges::count(text, '\n') == ranks + 1);
  MUSTER_CHECK(std::ranges::count(text, '\t') == 4 * (ranks + 1));
}

void check_paths(const std::string& input) {
  const std::size_t end = std::min(input.find('\n'), input.size());
  const auto plan = cli::parse_copy(input.substr(0, end), input.substr(std::min(end + 1, input.size())));
  if (!plan.ok()) {
    MUSTER_CHECK(plan.status().message().find('\n') == std::string::npos);
    return;
  }
  MUSTER_CHECK(plan->from.is_remote() != plan->to.is_remote());
  MUSTER_CHECK(!plan->remote().path.empty() && plan->remote().rank.value_or(0) >= 0);
  MUSTER_CHECK(cli::base_name(plan->from.path).find('/') == std::string::npos);
}

void check_header(std::string input) {
  const std::size_t before = input.size();
  const auto header = cli::take_copy_header(input);
  if (!header.ok() || !*header) {
    MUSTER_CHECK(input.size() == before);
    return;
  }
  MUSTER_CHECK(input.size() < before && (*header)->size >= 0 && (*header)->mode <= 07777);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string input(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'r':
      check_request(input);
      break;
    case 't':
      check_table(input);
      break;
    case 'p':
      check_paths(input);
      break;
    case 'h':
      check_header(input);
      break;
    default:
      break;
  }
  return 0;
}
