// Encoding and decoding of all messages between agent and warden. Each struct has a put() and a get().
// Read put() and get() of one struct first, then encode_variant() and decode_variant(), then decode_event(), which
// adds descriptors.

#include "agent/process/warden_protocol.h"

#include "agent/process/wire.h"

namespace muster::agent::inline process {
namespace {

std::int64_t to_wire(base::MonotonicTime at) {
  return std::chrono::nanoseconds(at.time_since_epoch()).count();
}

bool read_time(WireReader& in, base::MonotonicTime& at) {
  std::int64_t nanoseconds = 0;
  if (!in.number(nanoseconds)) return false;
  at = base::MonotonicTime(std::chrono::nanoseconds(nanoseconds));
  return true;
}

bool read_millis(WireReader& in, std::chrono::milliseconds& value) {
  std::int64_t count = 0;
  if (!in.number(count)) return false;
  value = std::chrono::milliseconds(count);
  return true;
}

void put(WireWriter& out, const SpawnRequest& request) {
  out.number(request.rank);
  out.texts(request.argv);
  out.texts(request.env);
  out.text(request.workdir);
  out.numbers(request.cpus);
  out.number(request.umask);
  out.numbers(request.limits);
  out.number(request.stdin_of);
  out.number(request.wants_pmi);
  out.number(request.rows);
  out.number(request.columns);
}

bool get(WireReader& in, SpawnRequest& request) {
  return in.number(request.rank) && in.texts(request.argv) && in.texts(request.env) && in.text(request.workdir) &&
         in.numbers(request.cpus) && in.number(request.umask) && in.numbers(request.limits) &&
         in.number(request.stdin_of) && in.number(request.wants_pmi) && in.number(request.rows) &&
         in.number(request.columns);
}

void put(WireWriter& out, const SignalCommand& command) {
  out.number(command.rank);
  out.number(command.signo);
}
bool get(WireReader& in, SignalCommand& command) {
  return in.number(command.rank) && in.number(command.signo);
}
void put(WireWriter& out, const StopCommand& command) {
  out.number(static_cast<std::int64_t>(command.grace.count()));
}
bool get(WireReader& in, StopCommand& command) {
  return read_millis(in, command.grace);
}
void put(WireWriter& out, const FinishCommand& command) {
  out.number(static_cast<std::int64_t>(command.patience.count()));
}
bool get(WireReader& in, FinishCommand& command) {
  return read_millis(in, command.patience);
}
void put(WireWriter& out, const PauseCommand& command) {
  out.number(command.on);
}
bool get(WireReader& in, PauseCommand& command) {
  return in.number(command.on);
}
void put(WireWriter&, const LeaveCommand&) {}
bool get(WireReader&, LeaveCommand&) {
  return true;
}

void put(WireWriter& out, const RankStarted& event) {
  out.number(event.rank);
  out.number(event.pid);
  out.number(event.pid_inside);
  out.number(to_wire(event.at));
}
bool get(WireReader& in, RankStarted& event) {
  return in.number(event.rank) && in.number(event.pid) && in.number(event.pid_inside) && read_time(in, event.at);
}
void put(WireWriter& out, const RankStartFailed& event) {
  out.number(event.rank);
  out.text(event.step);
  out.number(event.errno_value);
  out.text(event.message);
  out.number(event.exit_code);
}
bool get(WireReader& in, RankStartFailed& event) {
  return in.number(event.rank) && in.text(event.step) && in.number(event.errno_value) && in.text(event.message) &&
         in.number(event.exit_code);
}
void put(WireWriter& out, const RankExited& event) {
  out.number(event.rank);
  out.number(event.pid);
  out.number(event.pid_inside);
  out.number(event.wait_status);
  out.number(event.signalled_by_us);
  out.number(event.oom_killed);
  out.number(event.oom_suspected);
  out.number(to_wire(event.at));
}
bool get(WireReader& in, RankExited& event) {
  return in.number(event.rank) && in.number(event.pid) && in.number(event.pid_inside) && in.number(event.wait_status) &&
         in.number(event.signalled_by_us) && in.number(event.oom_killed) && in.number(event.oom_suspected) &&
         read_time(in, event.at);
}
void put(WireWriter& out, const JobEmpty& event) {
  out.number(static_cast<std::uint32_t>(event.killed.size()));
  for (const Leftover& leftover : event.killed) {
    out.number(leftover.pid);
    out.text(leftover.command);
    out.text(leftover.why);
    out.number(leftover.is_pid_inside);
  }
  out.number(static_cast<std::uint32_t>(event.stuck.size()));
  for (const Unkillable& stuck : event.stuck) {
    out.number(stuck.pid);
    out.text(stuck.command);
    out.number(stuck.state);
    out.text(stuck.wchan);
  }
  out.number(event.oom_others);
}
bool get(WireReader& in, JobEmpty& event) {
  std::uint32_t count = 0;
  if (!in.number(count)) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    Leftover& leftover = event.killed.emplace_back();
    if (!in.number(leftover.pid) || !in.text(leftover.command) || !in.text(leftover.why) ||
        !in.number(leftover.is_pid_inside)) {
      return false;
    }
  }
  if (!in.number(count)) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    Unkillable& stuck = event.stuck.emplace_back();
    if (!in.number(stuck.pid) || !in.text(stuck.command) || !in.number(stuck.state) || !in.text(stuck.wchan)) {
      return false;
    }
  }
  return in.number(event.oom_others);
}
void put(WireWriter& out, const LeaseExpired& event) {
  out.number(to_wire(event.at));
}
bool get(WireReader& in, LeaseExpired& event) {
  return read_time(in, event.at);
}

template <typename Variant>
std::string encode_variant(const Variant& value) {
  WireWriter out;
  out.number(static_cast<std::uint32_t>(value.index()));
  std::visit([&out](const auto& message) { put(out, message); }, value);
  return out.take();
}

template <typename Variant, std::size_t Index = 0>
bool decode_variant(WireReader& in, std::uint32_t kind, Variant& value) {
  if constexpr (Index < std::variant_size_v<Variant>) {
    if (kind != Index) return decode_variant<Variant, Index + 1>(in, kind, value);
    return get(in, value.template emplace<Index>());
  } else {
    return false;
  }
}

base::Status malformed() {
  return base::error(base::Code::kInternal, "a message between agent and warden cannot be parsed");
}

}  // namespace

std::string encode(const WardenCommand& command) {
  return encode_variant(command);
}

base::Result<WardenCommand> decode_command(const std::string& payload) {
  WireReader in(payload);
  std::uint32_t kind = 0;
  WardenCommand command;
  if (!in.number(kind) || !decode_variant(in, kind, command) || !in.at_end()) return malformed();
  return command;
}

std::string encode(const WardenReady& ready) {
  WireWriter out;
  out.number(ready.is_ok);
  out.text(ready.error);
  out.number(ready.pid);
  out.number(ready.containment.cgroup);
  out.number(ready.containment.pidns);
  out.text(ready.containment.note);
  out.text(ready.cgroup_path);
  return out.take();
}

base::Result<WardenReady> decode_ready(const std::string& payload) {
  WireReader in(payload);
  WardenReady ready;
  if (!in.number(ready.is_ok) || !in.text(ready.error) || !in.number(ready.pid) ||
      !in.number(ready.containment.cgroup) || !in.number(ready.containment.pidns) || !in.text(ready.containment.note) ||
      !in.text(ready.cgroup_path)) {
    return malformed();
  }
  return ready;
}

SocketMessage encode(WardenEvent event) {
  SocketMessage message;
  message.payload = encode_variant(event);
  if (auto* started = std::get_if<RankStarted>(&event)) {
    // Write which of the four descriptors are valid. Only valid ones are sent.
    WireWriter present;
    for (base::UniqueFd* fd : {&started->stdin_fd, &started->stdout_fd, &started->stderr_fd, &started->pmi_fd}) {
      present.number(fd->valid());
      if (fd->valid()) message.fds.push_back(std::move(*fd));
    }
    message.payload += present.take();
  }
  return message;
}

base::Result<WardenEvent> decode_event(SocketMessage message) {
  WireReader in(message.payload);
  std::uint32_t kind = 0;
  WardenEvent event;
  if (!in.number(kind) || !decode_variant(in, kind, event)) return malformed();
  if (auto* started = std::get_if<RankStarted>(&event)) {
    auto next = message.fds.begin();
    for (base::UniqueFd* fd : {&started->stdin_fd, &started->stdout_fd, &started->stderr_fd, &started->pmi_fd}) {
      bool is_present = false;
      if (!in.number(is_present) || (is_present && next == message.fds.end())) return malformed();
      if (is_present) *fd = std::move(*next++);
    }
    if (next != message.fds.end()) return malformed();
  }
  if (!in.at_end()) return malformed();
  return event;
}

}  // namespace muster::agent::process
