// Encoding and decoding of all messages. One fields() for each struct lists its fields for both directions.
// Read one fields() first, then encode_any() and decode_any().

#include "agent/pmix/messages.h"

#include <utility>

#include "agent/process/fields.h"

namespace muster::agent::pmix {
namespace {

constexpr std::size_t kMaxHosts = std::size_t{1} << 20;
constexpr std::size_t kMaxPrograms = 4096;

template <MessageOf<BeginServer> M>
bool fields(auto& io, M& m) {
  return io(m.nspace, m.directory, m.host_name, m.host);
}

bool fields(auto&, const Connection&) {
  return true;
}

template <typename M>
requires MessageOf<M, FenceDone> || MessageOf<M, RankDataFound>
bool fields(auto& io, M& m) {
  return io(m.id, m.is_ok, m.blob);
}

template <typename M>
requires MessageOf<M, WantRankData> || MessageOf<M, RankConnected> || MessageOf<M, RankFinalized>
bool fields(auto& io, M& m) {
  return io(m.rank);
}

template <MessageOf<Ready> M>
bool fields(auto& io, M& m) {
  return io(m.error, m.version);
}

template <MessageOf<RankAborted> M>
bool fields(auto& io, M& m) {
  return io(m.rank, m.code);
}

template <MessageOf<FenceEntered> M>
bool fields(auto& io, M& m) {
  return io(m.id, m.name, m.hosts, m.blob, m.ranks);
}

template <MessageOf<RankDataWanted> M>
bool fields(auto& io, M& m) {
  return io(m.id, m.rank);
}

template <MessageOf<RankData> M>
bool fields(auto& io, M& m) {
  return io(m.rank, m.is_ok, m.blob);
}

template <MessageOf<RankText> M>
bool fields(auto& io, M& m) {
  return io(m.rank, m.text);
}

template <MessageOf<NameAnswer> M>
bool fields(auto& io, M& m) {
  return io(m.id, m.status, m.names, m.values);
}

template <MessageOf<NamePublish> M>
bool fields(auto& io, M& m) {
  return io(m.id, m.rank, m.names, m.values, m.is_read_once);
}

template <MessageOf<NameLookUp> M>
bool fields(auto& io, M& m) {
  return io(m.id, m.names, m.waits, m.seconds);
}

template <MessageOf<NameUnpublish> M>
bool fields(auto& io, M& m) {
  return io(m.id, m.rank, m.names);
}

template <MessageOf<Placement> M>
bool fields(auto& io, M& m) {
  return io.list(m.hosts, kMaxHosts, [&](auto& each) { return io(each.name, each.ranks); }) &&
         io(m.programs, m.universe);
}

template <MessageOf<AddWorld> M>
bool fields(auto& io, M& m) {
  return io(m.nspace, m.first, m.spawner) && fields(io, m.placement);
}

template <MessageOf<SpawnDone> M>
bool fields(auto& io, M& m) {
  return io(m.id, m.nspace);
}

template <MessageOf<WorldAdded> M>
bool fields(auto& io, M& m) {
  return io(m.first, m.error);
}

template <MessageOf<SpawnProgram> M>
bool fields(auto& io, M& m) {
  return io(m.command, m.ranks, m.environment, m.workdir, m.hosts);
}

template <MessageOf<SpawnWanted> M>
bool fields(auto& io, M& m) {
  return io(m.id, m.rank) && io.list(m.programs, kMaxPrograms, [&](auto& each) { return fields(io, each); });
}

constexpr auto kFields = [](auto& io, auto& message) { return fields(io, message); };

template <typename Message>
std::string encode_any(const Message& message) {
  FieldWriter out;
  write_one_of<std::uint8_t>(out, message, kFields);
  return out.take();
}

template <typename Message>
base::Result<Message> decode_any(const std::string& payload, const char* what) {
  FieldReader in(payload);
  Message message;
  if (read_one_of<std::uint8_t>(in, message, kFields) && in.at_end()) return message;
  return base::invalid_argument("{} of {} bytes cannot be read", what, payload.size());
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
