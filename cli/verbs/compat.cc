#include "cli/verbs/compat.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/build_id.h"
#include "base/file.h"
#include "base/strings.h"
#include "cli/hosts/surroundings.h"
#include "cli/verbs/verb.h"
#include "proto/message_json.h"

namespace muster::cli::inline verbs {
namespace {

constexpr int kFailed = 1;
constexpr std::size_t kMaxFile = 64u << 10;
constexpr std::string_view kNotRun = "not run";  // the value in the JSON result
constexpr std::string_view kNotTried = "not tried here";
constexpr std::string_view kNothingTried =
    "Muster serves all of these. None was tried with this build yet; that is not a failure.\ndocs/compat.md lists what "
    "was tried before a release. tools/peers installs the clients, and the end-to-end tests try them.\n\n";

struct Client {
  std::string_view name;
  std::string_view protocol;
};

constexpr auto kClients = std::to_array<Client>({
    {"torch-1.13", "TCPStore as up to 2.0; env://, DDP over gloo"},
    {"torch-2.1", "TCPStore as in 2.1; env://, gloo"},
    {"torch-2.2", "TCPStore as from 2.2 (VALIDATE); env://, gloo"},
    {"horovod-gloo", "HTTP store of horovod 0.28, Gloo controller"},
    {"tensorflow-2.15", "muster.tensorflow, muster.keras; Keras 2"},
    {"tensorflow-2.21", "muster.tensorflow, muster.keras; Keras 3"},
    {"mxnet-1.9", "muster.mxnet"},
    {"mxnet-dmlc", "ps-lite: scheduler, servers, workers; kvstore dist_sync"},
    {"mpich", "PMI-1, without mpiexec"},
    {"mpich-5", "as mpich"},
    {"intel-mpi", "as mpich"},
    {"openmpi", "PMIx through libpmix, without mpirun"},
    {"openmpi-5", "as openmpi"},
    {"mpi4py", "as openmpi"},
    {"jax-0.6", "jax.distributed, --runtime jax"},
    {"tensorflow-multi", "TF_CONFIG, --runtime tensorflow"},
});

bool is_result(std::string_view word) {
  return word == "passed" || word == "failed";
}

base::Result<v1::ClientResult> read_result(const std::string& path, const Client& client) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, base::read_file(path, kMaxFile));
  v1::ClientResult result;
  const base::Status parsed = proto::parse_message(text, result);
  if (!parsed.ok() || result.client() != client.name || !is_result(result.result())) {
    return base::invalid_argument("{} is no result of {}: run its tests again", path, client.name);
  }
  return result;
}

}  // namespace

std::vector<v1::ClientResult> read_compat(const std::string& directory, std::vector<std::string>* problems) {
  std::vector<v1::ClientResult> results;
  for (const Client& client : kClients) {
    auto result = read_result(fmt::format("{}/{}.json", directory, client.name), client);
    if (!result.ok() && result.status().code() != base::Code::kNotFound) problems->push_back(result.status().message());
    v1::ClientResult& row = results.emplace_back(result.ok() ? std::move(*result) : v1::ClientResult());
    row.set_client(std::string(client.name));
    row.set_protocol(std::string(client.protocol));
    if (row.result().empty()) row.set_result(std::string(kNotRun));
  }
  return results;
}

std::string format_compat(const std::vector<v1::ClientResult>& results, const std::string& build) {
  std::size_t width = 0;
  for (const v1::ClientResult& row : results) width = std::max(width, row.protocol().size());
  const bool is_any_run = std::ranges::any_of(results, [](const auto& row) { return row.result() != kNotRun; });
  std::string table(is_any_run ? "" : kNothingTried);
  table += fmt::format("{:<17}{:<{}}  {}\n", "client", "what is served", width, "result");
  for (const v1::ClientResult& row : results) {
    std::string result(kNotTried);
    if (row.result() != kNotRun) {
      result = row.result();
      result += fmt::format(": {}, {} tests, {}", base::printable(row.version()), row.tests(),
                            base::printable(row.time().substr(0, 10)));
      if (row.build() != build) result += ", with another build";
    }
    table += fmt::format("{:<17}{:<{}}  {}\n", row.client(), row.protocol(), width, result);
  }
  return table;
}

int run_compat(const std::string&, const std::vector<std::string>& arguments) {
  const VerbCall call("compat", compat_doc(), arguments);
  if (call.exit_code()) return *call.exit_code();
  if (!call.words().empty()) {
    return call.fail(
        fmt::format("'{}' is a word too many: there is nothing to name", base::printable(call.words().front())));
  }
  const auto programs = program_directory();
  if (!programs.ok()) return call.fail(programs.status().message(), kFailed);
  std::vector<std::string> problems;
  const auto results = read_compat(*programs + "/../share/muster/compat", &problems);
  for (const std::string& problem : problems) call.remark(problem);
  std::string text;
  if (call.has("json")) {
    for (const v1::ClientResult& row : results) text += proto::message_line(row);
  } else {
    text = format_compat(results, std::string(base::build_id()));
  }
  if (const int failed = call.print(text); failed != 0) return failed;
  return std::ranges::any_of(results, [](const auto& row) { return row.result() == "failed"; }) ? kFailed : 0;
}

}  // namespace muster::cli::verbs
