// What the agent and muster-pmix (its helper: the PMIx server of one job on this host) say to each other, as messages
// of MessageSocket. Both are of one build, so there are no versions; the helper speaks with ranks and loads a library
// of the host, so what comes from it is checked as a stranger's. Plain functions.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"

namespace muster::agent::pmix {

// The longest message that either takes: the data of a fence over all hosts.
inline constexpr std::size_t kMaxMessage = std::size_t{256} << 20;

// First: libpmix is loaded and its server begins. Answered by Ready.
struct BeginServer {
  std::string nspace;     // the name of the job among all that this host has and had
  std::string directory;  // ours, for what libpmix and the ranks keep in files
  std::string host_name;  // as in Placement
  int host = 0;           // the index of this one in Placement
};

struct HostRanks {
  std::string name;
  std::vector<int> ranks;  // ascending
};

// Then: where all ranks of the job are. Connections are served from here on.
struct Placement {
  std::vector<HostRanks> hosts;
  std::vector<int> programs = {};  // how many ranks each has, in rank order
  int universe = 0;                // slots of the job's hosts; 0: as many as ranks
};

// Ranks that a rank has spawned (MPI_Comm_spawn): a namespace of their own. `rank` in all other messages is a number of
// the job: that of a spawned rank is `first` and its rank in this world. Answered by WorldAdded.
struct AddWorld {
  std::string nspace;
  int first = 0;
  int spawner = 0;      // the number of the rank that has spawned it
  Placement placement;  // hosts as in the job's; those without a rank of this world have an empty list
};

// To SpawnWanted of this id.
struct SpawnDone {
  std::uint64_t id = 0;
  std::string nspace;  // empty: refused
};

// With a descriptor: a rank has connected, and is of the job's user.
struct Connection {};

// To FenceEntered of this id: all hosts have come, these are their blobs, one after the other.
struct FenceDone {
  std::uint64_t id = 0;
  bool is_ok = false;
  std::string blob;
};

// Another host wants what this rank of ours has published, as soon as it has; answered by RankData.
struct WantRankData {
  int rank = 0;
};

// To RankDataWanted of this id.
struct RankDataFound {
  std::uint64_t id = 0;
  bool is_ok = false;
  std::string blob;
};

enum class NameStatus { kDone = 0, kExists = 1, kMissing = 2, kFailed = 3 };

// To NamePublish, NameLookUp or NameUnpublish of this id.
struct NameAnswer {
  std::uint64_t id = 0;
  int status = 0;                        // a NameStatus
  std::vector<std::string> names = {};   // those that a look-up has found
  std::vector<std::string> values = {};  // theirs, as they were published
};

using Command = std::variant<BeginServer, Placement, Connection, FenceDone, WantRankData, RankDataFound, NameAnswer,
                             AddWorld, SpawnDone>;

struct Ready {
  std::string error;    // one sentence without the host's name; empty: it serves
  std::string version;  // of libpmix
};

struct RankConnected {
  int rank = 0;
};

struct RankFinalized {
  int rank = 0;
};

struct RankAborted {
  int rank = 0;
  int code = 0;  // as the program gave it
};

// All ranks of this host that take part have come.
struct FenceEntered {
  std::uint64_t id = 0;
  std::string name;        // the same on all hosts for the same ranks
  std::vector<int> hosts;  // that take part, ascending
  std::string blob;
};

// Of a rank on `host`, another one than this.
struct RankDataWanted {
  std::uint64_t id = 0;
  int rank = 0;
};

struct RankData {
  int rank = 0;
  bool is_ok = false;
  std::string blob;
};

// For the rank's stderr.
struct RankText {
  int rank = 0;
  std::string text;
};

struct SpawnProgram {
  std::vector<std::string> command = {};
  int ranks = 0;
  std::vector<std::string> environment = {};  // NAME=VALUE, over the job's
  std::string workdir = {};                   // empty: the job's
  std::vector<std::string> hosts = {};        // the names that the program allows; empty: any of the job
};

// The rank asks for more processes (MPI_Comm_spawn).
struct SpawnWanted {
  std::uint64_t id = 0;
  int rank = 0;
  std::vector<SpawnProgram> programs = {};
};

struct WorldAdded {
  int first = 0;
  std::string error;  // one sentence without the host's name; empty: its ranks may come
};

// The rank publishes values (bytes that only helpers read) under names, for the ranks of this job.
struct NamePublish {
  std::uint64_t id = 0;
  int rank = 0;
  std::vector<std::string> names = {};
  std::vector<std::string> values = {};
  bool is_read_once = false;  // the first look-up takes them away
};

struct NameLookUp {
  std::uint64_t id = 0;
  std::vector<std::string> names = {};
  bool waits = false;  // until all are published
  int seconds = 0;     // at most so long; 0: for ever
};

struct NameUnpublish {
  std::uint64_t id = 0;
  int rank = 0;
  std::vector<std::string> names = {};  // empty: all of this rank
};

using Event = std::variant<Ready, RankConnected, RankFinalized, RankAborted, FenceEntered, RankDataWanted, RankData,
                           RankText, SpawnWanted, NamePublish, NameLookUp, NameUnpublish, WorldAdded>;

// INVALID_ARGUMENT: no whole message, or something behind it.
std::string encode(const Command& command);
base::Result<Command> decode_command(const std::string& payload);
std::string encode(const Event& event);
base::Result<Event> decode_event(const std::string& payload);

}  // namespace muster::agent::pmix
