// Encoding and decoding of all messages. One fields() for each struct lists its fields for both directions.
// Read Writing and Reading first, then one fields(), then encode_any() and decode_any().

#include "agent/pmix/messages.h"

#include <utility>

#include "agent/process/wire.h"

namespace muster::agent::pmix {
namespace {

constexpr std::size_t kMaxHosts = std::size_t{1} << 20;
constexpr std::size_t kMaxPrograms = 4096;

// Writing and Reading handle one field after the other, by the same list of fields in both directions.
struct Writing {
  WireWriter& out;
  bool operator()(const std::string& text) {
    out.text(text);
    return true;
  }
  bool operator()(const std::vector<int>& numbers) {
    out.numbers(numbers);
    return true;
  }
  bool operator()(const std::vector<std::string>& texts) {
    out.texts(texts);
    return true;
  }
  bool operator()(bool value) {
    out.number(static_cast<std::uint8_t>(value));
    return true;
  }
  bool operator()(int value) {
    out.number(static_cast<std::int32_t>(value));
    return true;
  }
  bool operator()(std::uint64_t value) {
    out.number(value);
    return true;
  }
};

struct Reading {
  WireReader& in;
  bool operator()(std::string& text) { return in.text(text); }
  bool operator()(std::vector<int>& numbers) { return in.numbers(numbers); }
  bool operator()(std::vector<std::string>& texts) { return in.texts(texts); }
  bool operator()(bool& value) {
    std::uint8_t byte = 0;
    if (!in.number(byte) || byte > 1) return false;
    value = byte == 1;
    return true;
  }
  bool operator()(int& value) {
    std::int32_t number = 0;
    if (!in.number(number)) return false;
    value = number;
    return true;
  }
  bool operator()(std::uint64_t& value) { return in.number(value); }
};

template <typename Io, typename T>
requires std::is_same_v<std::remove_const_t<T>, BeginServer>
bool fields(Io io, T& m) {
  return io(m.nspace) && io(m.directory) && io(m.host_name) && io(m.host);
}

template <typename Io, typename T>
requires std::is_same_v<std::remove_const_t<T>, Connection>
bool fields(Io, T&) {
  return true;
}

template <typename Io, typename T>
requires std::is_same_v<std::remove_const_t<T>, FenceDone> || std::is_same_v<std::remove_const_t<T>, RankDataFound>
bool fields(Io io, T& m) {
  return io(m.id) && io(m.is_ok) && io(m.blob);
}

template <typename Io, typename T>
requires std::is_same_v<std::remove_const_t<T>, WantRankData> ||
    std::is_same_v<std::remove_const_t<T>, RankConnected> || std::is_same_v<std::remove_const_t<T>, RankFinalized>
bool fields(Io io, T& m) {
  return io(m.rank);
}

template <typename Io, typename T>
requires std::is_same_v<std::remove_const_t<T>, Ready>
bool fields(Io io, T& m) {
  return io(m.error) && io(m.version);
}

template <typename Io, typename T>
requires std::is_same_v<std::remove_const_t<T>, RankAborted>
bool fields(Io io, T& m) {
  return io(m.rank) && io(m.code);
}

template <typename Io, typename T>
requires std::is_same_v<std::remove_const_t<T>, FenceEntered>
bool fields(Io io, T& m) {
  return io(m.id) && io(m.name) && io(m.hosts) && io(m.blob);
}

template <typename Io, typename T>
requires std::is_same_v<std::remove_const_t<T>, RankDataWanted>
bool fields(Io io, T& m) {
  return io(m.id) && io(m.rank);
}

template <typename Io, typename T>
requires std::is_same_v<std::remove_const_t<T>, RankData>
bool fields(Io io, T& m) {
  return io(m.rank) && io(m.is_ok) && io(m.blob);
}

template <typename Io, typename T>
requires std::is_same_v<std::remove_const_t<T>, RankText>
bool fields(Io io, T& m) {
  return io(m.rank) && io(m.text);
}

template <typename Io, typename T>
requires std::is_same_v<std::remove_const_t<T>, NameAnswer>
bool fields(Io io, T& m) {
  return io(m.id) && io(m.status) && io(m.names) && io(m.values);
}

template <typename Io, typename T>
requires std::is_same_v<std::remove_const_t<T>, NamePublish>
bool fields(Io io, T& m) {
  return io(m.id) && io(m.rank) && io(m.names) && io(m.values) && io(m.is_read_once);
}

template <typename Io, typename T>
requires std::is_same_v<std::remove_const_t<T>, NameLookUp>
bool fields(Io io, T& m) {
  return io(m.id) && io(m.names) && io(m.waits) && io(m.seconds);
}

template <typename Io, typename T>
requires std::is_same_v<std::remove_const_t<T>, NameUnpublish>
bool fields(Io io, T& m) {
  return io(m.id) && io(m.rank) && io(m.names);
}

bool fields(Writing io, const Placement& m) {
  io.out.number(static_cast<std::uint32_t>(m.hosts.size()));
  for (const HostRanks& host : m.hosts) io(host.name), io(host.ranks);
  return io(m.programs) && io(m.universe);
}

bool fields(Reading io, Placement& m) {
  std::uint32_t count = 0;
  if (!io.in.number(count) || count > kMaxHosts) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    HostRanks& host = m.hosts.emplace_back();
    if (!io(host.name) || !io(host.ranks)) return false;
  }
  return io(m.programs) && io(m.universe);
}

template <typename Io, typename T>
requires std::is_same_v<std::remove_const_t<T>, AddWorld>
bool fields(Io io, T& m) {
  return io(m.nspace) && io(m.first) && io(m.spawner) && fields(io, m.placement);
}

template <typename Io, typename T>
requires std::is_same_v<std::remove_const_t<T>, SpawnDone>
bool fields(Io io, T& m) {
  return io(m.id) && io(m.nspace);
}

template <typename Io, typename T>
requires std::is_same_v<std::remove_const_t<T>, WorldAdded>
bool fields(Io io, T& m) {
  return io(m.first) && io(m.error);
}

template <typename Io, typename T>
requires std::is_same_v<std::remove_const_t<T>, SpawnProgram>
bool fields(Io io, T& m) {
  return io(m.command) && io(m.ranks) && io(m.environment) && io(m.workdir) && io(m.hosts);
}

bool fields(Writing io, const SpawnWanted& m) {
  io(m.id), io(m.rank);
  io.out.number(static_cast<std::uint32_t>(m.programs.size()));
  for (const SpawnProgram& program : m.programs) fields(io, program);
  return true;
}

bool fields(Reading io, SpawnWanted& m) {
  std::uint32_t count = 0;
  if (!io(m.id) || !io(m.rank) || !io.in.number(count) || count > kMaxPrograms) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!fields(io, m.programs.emplace_back())) return false;
  }
  return true;
}

template <typename Message>
std::string encode_any(const Message& message) {
  WireWriter out;
  out.number(static_cast<std::uint8_t>(message.index()));
  std::visit([&out](const auto& each) { fields(Writing{out}, each); }, message);
  return out.take();
}

template <typename Message, std::size_t index>
bool read_as(WireReader& in, Message& message) {
  return fields(Reading{in}, message.template emplace<index>());
}

template <typename Message, std::size_t... indexes>
bool read_kind(std::size_t kind, WireReader& in, Message& message, std::index_sequence<indexes...>) {
  return ((kind == indexes && read_as<Message, indexes>(in, message)) || ...);
}

template <typename Message>
base::Result<Message> decode_any(const std::string& payload, const char* what) {
  WireReader in(payload);
  std::uint8_t kind = 0;
  Message message;
  const bool is_whole =
      in.number(kind) && read_kind(kind, in, message, std::make_index_sequence<std::variant_size_v<Message>>());
  if (is_whole && in.at_end()) return message;
  return base::error(base::Code::kInvalidArgument, "{} of {} bytes cannot be read", what, payload.size());
}

}  // namespace

std::string encode(const Command& command) {
  return encode_any(command);
}

base::Result<Command> decode_command(const std::string& payload) {
  return decode_any<Command>(payload, "a command to the PMIx server");
}

std::string encode(const Event& event) {
  return encode_any(event);
}

base::Result<Event> decode_event(const std::string& payload) {
  return decode_any<Event>(payload, "a message of the PMIx server");
}

}  // namespace muster::agent::pmix
