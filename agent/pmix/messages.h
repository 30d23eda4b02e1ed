// The messages between the agent and muster-pmix, carried by MessageSocket. muster-pmix is its helper, the PMIx
// server of one job on this host. Plain functions.
//
// Both sides are of one build, so there are no versions. The helper talks to ranks and loads a library of the host,
// so the agent checks its messages as those of a stranger.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"

namespace muster::agent::pmix {

// The longest message that either side accepts: the data of a fence over all hosts.
inline constexpr std::size_t kMaxMessage = std::size_t{256} << 20;

// The first command: load libpmix and start its server. Ready answers it.
struct BeginServer {
  std::string nspace;     // the job's name, unique among all jobs that this host has and had
  std::string directory;  // a directory of ours for files of libpmix and the ranks
  std::string host_name;  // as in Placement
  int host = 0;           // the index of this host in Placement
};

struct HostRanks {
  std::string name;
  std::vector<int> ranks;  // ascending
};

// The second command: where all ranks of the job are. From then on connections are served.
struct Placement {
  std::vector<HostRanks> hosts;
  std::vector<int> programs = {};  // number of ranks of each program, in rank order
  int universe = 0;                // slots of the job's hosts; 0 means as many as ranks
};

// Ranks that a rank has spawned (MPI_Comm_spawn), with a namespace of their own. WorldAdded answers it.
// `rank` in all other messages is a job-wide number. For a spawned rank it is `first` plus its rank in this world.
struct AddWorld {
  std::string nspace;
  int first = 0;
  int spawner = 0;  // the number of the rank that has spawned them
  // The hosts are those of the job. A host without a rank of this world has an empty list.
  Placement placement;
};

// Answers the SpawnWanted with this id.
struct SpawnDone {
  std::uint64_t id = 0;
  std::string nspace;  // empty means refused
};

// A rank of the job's user has connected. The message carries its descriptor.
struct Connection {};

// Answers the FenceEntered with this id: all hosts have entered. `blob` is their blobs, one after the other.
struct FenceDone {
  std::uint64_t id = 0;
  bool is_ok = false;
  std::string blob;
};

// Another host wants the data of this host's rank, as soon as the rank has published them. RankData answers it.
struct WantRankData {
  int rank = 0;
};

// Answers the RankDataWanted with this id.
struct RankDataFound {
  std::uint64_t id = 0;
  bool is_ok = false;
  std::string blob;
};

enum class NameStatus { kDone = 0, kExists = 1, kMissing = 2, kFailed = 3 };

// Answers the NamePublish, NameLookUp or NameUnpublish with this id.
struct NameAnswer {
  std::uint64_t id = 0;
  int status = 0;                        // a NameStatus
  std::vector<std::string> names = {};   // those that a look-up has found
  std::vector<std::string> values = {};  // their values, as they were published
};

using Command = std::variant<BeginServer, Placement, Connection, FenceDone, WantRankData, RankDataFound, NameAnswer,
                             AddWorld, SpawnDone>;

struct Ready {
  std::string error;    // one sentence without the host's name; empty if it serves
  std::string version;  // version of libpmix
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

// All ranks of this host that take part have entered.
struct FenceEntered {
  std::uint64_t id = 0;
  std::string name;        // the same on all hosts for the same ranks
  std::vector<int> hosts;  // hosts that take part, ascending
  std::string blob;
  std::vector<int> ranks = {};  // ranks of this host that take part
};

// This host wants the data of a rank on another host.
struct RankDataWanted {
  std::uint64_t id = 0;
  int rank = 0;
};

struct RankData {
  int rank = 0;
  bool is_ok = false;
  std::string blob;
};

// Text for the rank's stderr.
struct RankText {
  int rank = 0;
  std::string text;
};

struct SpawnProgram {
  std::vector<std::string> command = {};
  int ranks = 0;
  std::vector<std::string> environment = {};  // NAME=VALUE entries that override the job's
  std::string workdir = {};                   // empty means the job's
  std::vector<std::string> hosts = {};        // names of hosts that the program allows; empty means any host of the job
};

// A rank asks for more processes (MPI_Comm_spawn).
struct SpawnWanted {
  std::uint64_t id = 0;
  int rank = 0;
  std::vector<SpawnProgram> programs = {};
};

struct WorldAdded {
  int first = 0;
  std::string error;  // one sentence without the host's name; empty if its ranks may start
};

// A rank publishes values under names for the ranks of this job. Only helpers read the bytes of values.
struct NamePublish {
  std::uint64_t id = 0;
  int rank = 0;
  std::vector<std::string> names = {};
  std::vector<std::string> values = {};
  bool is_read_once = false;  // the first look-up removes them
};

struct NameLookUp {
  std::uint64_t id = 0;
  std::vector<std::string> names = {};
  bool waits = false;  // wait until all are published
  int seconds = 0;     // the longest wait; 0 means for ever
};

struct NameUnpublish {
  std::uint64_t id = 0;
  int rank = 0;
  std::vector<std::string> names = {};  // empty means all names of this rank
};

using Event = std::variant<Ready, RankConnected, RankFinalized, RankAborted, FenceEntered, RankDataWanted, RankData,
                           RankText, SpawnWanted, NamePublish, NameLookUp, NameUnpublish, WorldAdded>;

// INVALID_ARGUMENT: the payload is not exactly one whole message.
std::string encode(const Command& command);
base::Result<Command> decode_command(const std::string& payload);
std::string encode(const Event& event);
base::Result<Event> decode_event(const std::string& payload);

}  // namespace muster::agent::pmix
