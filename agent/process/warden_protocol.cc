// Encoding and decoding of all messages between agent and warden. One fields() for each struct serves both.
// Read one fields() first, then encode_variant(), then decode_event(), which adds descriptors.

#include "agent/process/warden_protocol.h"

#include "agent/process/fields.h"

namespace muster::agent::inline process {
namespace {

template <MessageOf<SpawnRequest> M>
bool fields(auto& io, M& m) {
  return io(m.rank, m.argv, m.env, m.workdir, m.cpus, m.umask, m.limits, m.stdin_of, m.wants_pmi, m.rows, m.columns);
}

template <MessageOf<SignalCommand> M>
bool fields(auto& io, M& m) {
  return io(m.rank, m.signo);
}

template <MessageOf<StopCommand> M>
bool fields(auto& io, M& m) {
  return io(m.grace);
}

template <MessageOf<FinishCommand> M>
bool fields(auto& io, M& m) {
  return io(m.patience);
}

template <MessageOf<PauseCommand> M>
bool fields(auto& io, M& m) {
  return io(m.on);
}

bool fields(auto&, const LeaveCommand&) {
  return true;
}

template <MessageOf<WardenReady> M>
bool fields(auto& io, M& m) {
  return io(m.is_ok, m.error, m.pid, m.containment.cgroup, m.containment.pidns, m.containment.note, m.cgroup_path);
}

template <MessageOf<RankStarted> M>
bool fields(auto& io, M& m) {
  return io(m.rank, m.pid, m.pid_inside, m.at);
}

template <MessageOf<RankStartFailed> M>
bool fields(auto& io, M& m) {
  return io(m.rank, m.step, m.errno_value, m.message, m.exit_code);
}

template <MessageOf<RankExited> M>
bool fields(auto& io, M& m) {
  return io(m.rank, m.pid, m.pid_inside, m.wait_status, m.signalled_by_us, m.oom_killed, m.oom_suspected, m.at) &&
         io(m.facts.peak_kib, m.facts.free_kib, m.facts.program, m.facts.workdir, m.facts.core_limit,
            m.facts.kernel_line);
}

template <MessageOf<JobEmpty> M>
bool fields(auto& io, M& m) {
  return io.list(m.killed, kNoLimit,
                 [&](auto& each) { return io(each.pid, each.command, each.why, each.is_pid_inside); }) &&
         io.list(m.stuck, kNoLimit, [&](auto& each) { return io(each.pid, each.command, each.state, each.wchan); }) &&
         io(m.oom_others);
}

template <MessageOf<LeaseExpired> M>
bool fields(auto& io, M& m) {
  return io(m.at);
}

constexpr auto kFields = [](auto& io, auto& message) { return fields(io, message); };

template <typename Variant>
std::string encode_variant(const Variant& value) {
  FieldWriter out;
  write_one_of<std::uint32_t>(out, value, kFields);
  return out.take();
}

base::Status malformed() {
  return base::internal_error("a message between agent and warden cannot be parsed");
}

}  // namespace

std::string encode(const WardenCommand& command) {
  return encode_variant(command);
}

base::Result<WardenCommand> decode_command(const std::string& payload) {
  FieldReader in(payload);
  WardenCommand command;
  if (!read_one_of<std::uint32_t>(in, command, kFields) || !in.at_end()) return malformed();
  return command;
}

std::string encode(const WardenReady& ready) {
  FieldWriter out;
  fields(out, ready);
  return out.take();
}

base::Result<WardenReady> decode_ready(const std::string& payload) {
  FieldReader in(payload);
  WardenReady ready;
  if (!fields(in, ready)) return malformed();
  return ready;
}

SocketMessage encode(WardenEvent event) {
  SocketMessage message;
  message.payload = encode_variant(event);
  if (auto* started = std::get_if<RankStarted>(&event)) {
    // Write which of the four descriptors are valid. Only valid ones are sent.
    FieldWriter present;
    for (base::UniqueFd* fd : {&started->stdin_fd, &started->stdout_fd, &started->stderr_fd, &started->pmi_fd}) {
      present(fd->valid());
      if (fd->valid()) message.fds.push_back(std::move(*fd));
    }
    message.payload += present.take();
  }
  return message;
}

base::Result<WardenEvent> decode_event(SocketMessage message) {
  FieldReader in(message.payload);
  WardenEvent event;
  if (!read_one_of<std::uint32_t>(in, event, kFields)) return malformed();
  if (auto* started = std::get_if<RankStarted>(&event)) {
    auto next = message.fds.begin();
    for (base::UniqueFd* fd : {&started->stdin_fd, &started->stdout_fd, &started->stderr_fd, &started->pmi_fd}) {
      bool is_present = false;
      if (!in(is_present) || (is_present && next == message.fds.end())) return malformed();
      if (is_present) *fd = std::move(*next++);
    }
    if (next != message.fds.end()) return malformed();
  }
  if (!in.at_end()) return malformed();
  return event;
}

}  // namespace muster::agent::process
