#include "launcherd/output/torch_logs.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "base/ids.h"
#include "base/unique_fd.h"
#include "launcherd/output/rank_folder.h"

namespace muster::launcherd::inline output {

base::Result<std::unique_ptr<TorchLogs>> TorchLogs::create(std::string directory, std::string run_id,
                                                           const model::Placement& placement) {
  std::ranges::replace(run_id, '/', '-');
  std::unique_ptr<TorchLogs> logs(new TorchLogs(std::move(directory), std::move(run_id)));
  MUSTER_RETURN_IF_ERROR(make_directories(logs->directory_));
  logs->set_placement(placement);
  MUSTER_RETURN_IF_ERROR(logs->begin(0));
  return logs;
}

void TorchLogs::set_placement(const model::Placement& placement) {
  next_ = placement;
}

base::Status TorchLogs::begin(int generation) {
  if (generation == generation_) return base::ok_status();
  generation_ = generation;
  places_.clear();
  for (const model::PlacedHost& host : next_.hosts) {
    MUSTER_ASSIGN_OR_RETURN(const std::size_t index, host_at(host.host.name));
    MUSTER_RETURN_IF_ERROR(make_directory(fmt::format("{}/attempt_{}", hosts_[index].second, generation_)));
    for (const model::PlacedRank& rank : host.ranks) {
      places_[rank.rank] = {index, rank.local_rank};
      MUSTER_RETURN_IF_ERROR(make_directory(rank_folder(rank.rank)));
    }
  }
  return base::ok_status();
}

// Returns the index of the host's folder. Makes the folder if the job is new on the host.
base::Result<std::size_t> TorchLogs::host_at(const std::string& name) {
  const auto known = std::ranges::find(hosts_, name, &std::pair<std::string, std::string>::first);
  if (known != hosts_.end()) return static_cast<std::size_t>(known - hosts_.begin());
  // torchrun's agents choose these names by Python's mkdtemp. Its random part has 8 characters, that of libc's has 6.
  constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz0123456789_";
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    std::array<unsigned char, 8> random{};
    base::random_bytes(random.data(), random.size());
    std::string path = fmt::format("{}/{}_", directory_, run_id_);
    for (const unsigned char byte : random) path += kAlphabet[byte % kAlphabet.size()];
    if (::mkdir(path.c_str(), 0700) == 0) {
      hosts_.emplace_back(name, path);
      return hosts_.size() - 1;
    }
    if (errno != EEXIST) return file_error("make directory", path, errno);
  }
  return base::resource_exhausted("no free name for a folder of run {} in {}", run_id_, directory_);
}

std::string TorchLogs::generation_folder(int rank) const {
  const auto place = places_.find(rank);
  if (place == places_.end()) return {};
  return fmt::format("{}/attempt_{}", hosts_[place->second.host].second, generation_);
}

std::string TorchLogs::rank_folder(int rank) const {
  const auto place = places_.find(rank);
  if (place == places_.end()) return {};
  return fmt::format("{}/{}", generation_folder(rank), place->second.local_rank);
}

int TorchLogs::local_rank(int rank) const {
  const auto place = places_.find(rank);
  return place == places_.end() ? -1 : place->second.local_rank;
}

std::vector<int> TorchLogs::ranks() const {
  std::vector<int> ranks;
  for (const auto& [rank, place] : places_) ranks.push_back(rank);
  return ranks;
}

base::Status TorchLogs::write_error_file(int rank, std::string_view content) const {
  const std::string folder = rank_folder(rank);
  if (folder.empty()) return base::not_found("rank {} has no folder for its error.json", rank);
  const std::string path = folder + "/error.json";
  const base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd.valid()) return file_error("open", path, errno);
  const base::Status written = base::write_all_blocking(fd.get(), content.data(), content.size());
  return written.ok() ? written : base::error(written.code(), "{}: {}", path, written.message());
}

}  // namespace muster::launcherd::output
