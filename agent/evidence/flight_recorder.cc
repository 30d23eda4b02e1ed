// All of flight_recorder.h. Read parse_flight_recorder() and ask_flight_recorder() at the end first.
#include "agent/evidence/flight_recorder.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include <fmt/format.h>

#include "agent/evidence/http_reply.h"
#include "agent/evidence/limited_stream.h"
#include "base/json.h"
#include "base/net.h"
#include "base/shortened.h"
#include "base/strings.h"

namespace muster::agent::inline evidence {
namespace {

constexpr std::size_t kLongestDump = 4u << 20;
constexpr std::size_t kLongestName = 100;  // bytes

std::string shown_name(std::string_view text) {
  return base::shortened(base::valid_utf8(text), kLongestName);
}

// An entry has its group as [name, description]. The description is what users know: "default_pg".
std::string group_of(const base::JsonNode& entry) {
  const auto& names = entry.array_at("process_group");
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    if (name->kind == base::JsonNode::Kind::kString && !name->text.empty() && name->text != "undefined") {
      return shown_name(name->text);
    }
  }
  return "";
}

base::Result<model::TorchCollective> collective_of(const base::JsonNode& entry) {
  const auto sequence = entry.number_at("collective_seq_id");
  const std::string_view state = entry.text_at("state");
  if (!sequence || *sequence < 0) return base::invalid_argument("flight recorder: an entry has no number");
  if (state != "scheduled" && state != "started" && state != "completed") {
    return base::invalid_argument("flight recorder: an entry has no known state");
  }
  return model::TorchCollective{.group = group_of(entry),
                                .sequence = static_cast<std::uint64_t>(*sequence),
                                .operation = shown_name(entry.text_at("profiling_name")),
                                .state = std::string(state)};
}

struct Open {
  std::size_t index = 0;  // in the dump
  model::TorchCollective collective;
};

base::Status check_owner(const std::string& socket, int fd, pid_t pid) {
  struct stat status {};
  if (::lstat(socket.c_str(), &status) != 0) return base::errno_error(errno, "look at torch's control socket");
  if (!S_ISSOCK(status.st_mode) || status.st_uid != ::getuid()) {
    return base::permission_denied("torch's control socket does not belong to the job's user");
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return base::errno_error(errno, "find the owner of torch's control socket");
  }
  if (peer.uid != ::getuid()) {
    return base::permission_denied("the process at torch's control socket does not belong to the job's user");
  }
  if (peer.pid == pid) return base::ok_status();
  return base::not_found("another process listens at torch's control socket");
}

base::Result<HttpReply> post(const std::string& socket, pid_t pid, std::string_view handler,
                             std::chrono::steady_clock::time_point deadline) {
  const auto address = base::unix_address(socket);
  if (!address) return base::invalid_argument("the path of torch's control socket is too long");
  MUSTER_ASSIGN_OR_RETURN(LimitedStream stream,
                          LimitedStream::connect(reinterpret_cast<const sockaddr*>(&*address), sizeof *address,
                                                 {.deadline = deadline, .bytes = kLongestDump}));
  MUSTER_RETURN_IF_ERROR(check_owner(socket, stream.fd(), pid));
  MUSTER_RETURN_IF_ERROR(stream.send(fmt::format(
      "POST /handler/{} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", handler)));
  return read_http_reply(stream);
}

}  // namespace

base::Result<std::optional<model::TorchCollective>> parse_flight_recorder(std::string_view json) {
  MUSTER_ASSIGN_OR_RETURN(const base::JsonNode dump, base::parse_json(json));
  if (dump.kind != base::JsonNode::Kind::kObject || dump.find("version") == nullptr) {
    return base::invalid_argument("flight recorder: the answer is no dump");
  }
  std::optional<model::TorchCollective> last;
  std::map<std::string, Open> open;  // by group
  std::size_t index = 0;
  for (const base::JsonNode& entry : dump.array_at("entries")) {
    if (entry.is_true_at("is_p2p")) continue;
    MUSTER_ASSIGN_OR_RETURN(last, collective_of(entry));
    // Parts of a coalesced operation may stay open for ever, so what a later operation has overtaken does not count.
    if (last->is_open()) open.try_emplace(last->group, Open{.index = index, .collective = *last});
    if (!last->is_open()) open.erase(last->group);
    ++index;
  }
  const auto first = std::ranges::min_element(open, {}, [](const auto& each) { return each.second.index; });
  return first == open.end() ? last : std::optional(first->second.collective);
}

base::Result<std::optional<model::TorchCollective>> ask_flight_recorder(
    const std::string& socket, pid_t pid, std::chrono::steady_clock::time_point deadline) {
  base::Status problem = base::not_found("torch's control plane has no flight recorder in JSON");
  // The first handler is for NCCL, the second one, of newer versions, for Gloo and other libraries.
  for (const std::string_view handler : {"dump_nccl_trace_json", "fr_trace_json"}) {
    MUSTER_ASSIGN_OR_RETURN(const HttpReply reply, post(socket, pid, handler, deadline));
    constexpr int kOk = 200;
    constexpr int kNoSuchHandler = 404;
    if (reply.status == kNoSuchHandler) continue;
    if (reply.status != kOk) return base::unavailable("torch's control plane answers with status {}", reply.status);
    MUSTER_ASSIGN_OR_RETURN(auto last, parse_flight_recorder(reply.body));
    if (last) return last;
    problem = base::ok_status();
  }
  if (!problem.ok()) return problem;
  return std::optional<model::TorchCollective>();
}

}  // namespace muster::agent::evidence
