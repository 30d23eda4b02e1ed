// The status page of a rank's process: a file of fixed size that libmuster maps and the agent reads. It says where the
// process is in its collective operations, and when it came to some of them.
//
// The file is `status.PID.NUMBER` in the job's session directory (CONTRACT.md §1), with mode 0600. The process that has
// made it holds a lock on it (flock) as long as it lives. The writer is collectives/join/status_page.h, the reader
// agent/job/rank_status.h. Both are of the same machine, but perhaps of different builds, so a change of this layout
// needs another kRankPageMagic. The reader must not trust any value.
#pragma once

#include <cstdint>

namespace muster::base {

inline constexpr std::uint64_t kRankPageMagic = 0x3145'4741'504b'4e52;  // "RNKPAGE1"
inline constexpr const char* kRankPagePrefix = "status.";
inline constexpr int kRankPageSamples = 128;

// The two highest bits of a sample's number say what was counted. Numbers of one kind are comparable between the ranks
// of a world.
inline constexpr int kSampleKindShift = 62;
enum class SampleKind : std::uint64_t {
  kCollective = 0,  // collectives of the world's communicator, in order
  kEngine = 1,      // operations of the engine, in the order in which all ranks run them; the time is the submission's
  kHeartbeat = 2,   // calls of muster_heartbeat()
};

struct RankPageSample {
  std::uint64_t number;  // 0: empty; written last
  std::int64_t ns;       // CLOCK_MONOTONIC
};

struct RankPage {
  std::uint64_t magic;
  // Odd while a thread writes the fields up to `name`.
  std::uint64_t sequence;
  std::int32_t job_rank;    // MUSTER_RANK
  std::int32_t world_rank;  // -1: there is no world
  std::int32_t size;        // of the world; 0: there is none
  std::int32_t world;       // number of the generation times 256, plus the number of worlds that the process had in it
  std::int64_t began_ns;    // when the operation began (CLOCK_MONOTONIC, exact to some ms)
  char operation[16];       // the last operation that began, such as "allreduce"; ends with a NUL
  char name[72];            // of its tensor; ends with a NUL
  // The next fields are written without `sequence`, each by one store.
  std::uint64_t begun;  // operations since the world was formed, without those of the world's communicator
  std::uint64_t ended;
  std::int64_t ended_ns;      // when the last one ended
  std::uint64_t world_begun;  // operations of the world's communicator, which run one at a time
  std::uint64_t world_ended;
  std::int64_t world_began_ns;
  char world_operation[16];
  std::uint64_t beats;
  std::uint64_t samples_written;
  RankPageSample samples[kRankPageSamples];
  char reserved[1840];
};
static_assert(sizeof(RankPage) == 4096);

}  // namespace muster::base
