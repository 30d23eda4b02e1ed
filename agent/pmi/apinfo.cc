#include "agent/pmi/apinfo.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "base/little_endian.h"
#include "model/role.h"

namespace muster::agent::inline pmi {
namespace {

constexpr int kVersion = 5;
// Sizes of the C structs. Slurm and flux-coral2 disagree only on the size of a distance (0 or 2), and neither writes
// distances.
constexpr std::size_t kHeaderBytes = 160;
constexpr std::size_t kProfileBytes = 36;
constexpr std::size_t kProgramBytes = 12;
constexpr std::size_t kRankBytes = 12;
constexpr std::size_t kNodeBytes = 68;
constexpr std::size_t kInterfaceBytes = 112;
constexpr std::size_t kNameBytes = 64;  // includes the NUL at the end

struct RankRecord {
  int local_rank = -1;  // -1 means that the rank is on no host
  int program = 0;
  int host = 0;
};

void put_int(int value, std::string& file) {
  char bytes[sizeof(std::int32_t)];
  base::put_little_endian(bytes, static_cast<std::int32_t>(value));
  file.append(bytes, sizeof bytes);
}

void put_size(std::size_t value, std::string& file) {
  char bytes[sizeof(std::uint64_t)];
  base::put_little_endian(bytes, static_cast<std::uint64_t>(value));
  file.append(bytes, sizeof bytes);
}

// Writes an int that a field of 8 bytes follows. The zero is C's padding.
void put_count(std::size_t value, std::string& file) {
  put_int(static_cast<int>(value), file);
  put_int(0, file);
}

// Writes the header entry for the records of one kind: the size of each, their offset, and their number. The records
// begin at `end`. The call then advances `end` by their total size.
void put_section(std::size_t bytes, std::size_t count, std::size_t& end, std::string& file) {
  put_size(bytes, file);
  put_size(end, file);
  put_count(count, file);
  end += bytes * count;
}

std::string header(std::size_t programs, std::size_t ranks, std::size_t hosts) {
  const std::size_t total = kHeaderBytes + programs * kProgramBytes + ranks * kRankBytes + hosts * kNodeBytes;
  std::string file;
  put_count(kVersion, file);
  put_size(total, file);
  std::size_t end = kHeaderBytes;
  put_section(kProfileBytes, 0, end, file);
  put_section(kProgramBytes, programs, end, file);
  put_section(kRankBytes, ranks, end, file);
  put_section(kNodeBytes, hosts, end, file);
  put_section(kInterfaceBytes, 0, end, file);
  put_size(0, file);  // offset of the status; 0 means none
  put_size(0, file);  // size of the distances
  put_size(0, file);  // offset of the distances
  return file;
}

base::Result<std::vector<RankRecord>> records_of(const std::vector<ApinfoHost>& hosts,
                                                 const std::vector<int>& programs) {
  std::vector<RankRecord> records(static_cast<std::size_t>(std::accumulate(programs.begin(), programs.end(), 0)));
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    for (std::size_t i = 0; i < hosts[host].ranks.size(); ++i) {
      const int rank = hosts[host].ranks[i];
      if (rank < 0 || static_cast<std::size_t>(rank) >= records.size()) {
        return base::invalid_argument("rank {} on {} belongs to no program", rank, hosts[host].name);
      }
      records[static_cast<std::size_t>(rank)] = {static_cast<int>(i), model::program_of(programs, rank),
                                                 static_cast<int>(host)};
    }
  }
  const auto lost = std::ranges::find(records, -1, &RankRecord::local_rank);
  if (lost != records.end()) {
    return base::invalid_argument("rank {} is on no host", lost - records.begin());
  }
  return records;
}

// Returns the largest number of the program's ranks on one host.
int most_on_a_host(int program, std::size_t hosts, const std::vector<RankRecord>& records) {
  std::vector<int> counts(hosts);
  for (const RankRecord& record : records) {
    if (record.program == program) ++counts[static_cast<std::size_t>(record.host)];
  }
  return counts.empty() ? 0 : *std::ranges::max_element(counts);
}

}  // namespace

base::Result<std::string> apinfo_file(const std::vector<ApinfoHost>& hosts,
                                      const std::vector<ApinfoProgram>& programs) {
  std::vector<int> sizes;
  for (const ApinfoProgram& program : programs) sizes.push_back(program.ranks);
  MUSTER_ASSIGN_OR_RETURN(const std::vector<RankRecord> records, records_of(hosts, sizes));
  std::string file = header(programs.size(), records.size(), hosts.size());
  for (std::size_t i = 0; i < programs.size(); ++i) {
    put_int(programs[i].ranks, file);
    put_int(most_on_a_host(static_cast<int>(i), hosts.size(), records), file);
    put_int(programs[i].cpus_per_rank, file);
  }
  for (const RankRecord& record : records) {
    put_int(record.local_rank, file);
    put_int(record.program, file);
    put_int(record.host, file);
  }
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    std::string name = hosts[i].name;
    if (name.size() >= kNameBytes) {
      return base::invalid_argument("the name of host {} is longer than {} bytes", name, kNameBytes - 1);
    }
    name.resize(kNameBytes);
    // HPE's header says "NOT Node ID: app-specific node index". Slurm writes the number in "nid00012" here, flux the
    // index.
    put_int(static_cast<int>(i), file);
    file += name;
  }
  return file;
}

}  // namespace muster::agent::pmi
