#include "agent/job/rank_table.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "base/file.h"

namespace muster::agent::inline job {
namespace {

struct TableLine {
  int rank = 0;
  int local_rank = 0;
  const v1::RankTableHost* host = nullptr;
  int cpus = 0;
};

// A column's text must hold no separator. Names and addresses have none, unless a launcher is at fault.
std::string cell(std::string_view text) {
  std::string safe(text);
  std::ranges::replace_if(
      safe, [](char letter) { return letter == '\t' || letter == '\n' || letter == '\r'; }, ' ');
  return safe.empty() ? "-" : safe;
}

}  // namespace

std::string rank_table_text(const v1::RankTable& table) {
  std::vector<TableLine> lines;
  for (const v1::RankTableHost& host : table.hosts()) {
    const bool has_cpus = host.cpus_size() == host.ranks_size();
    for (int i = 0; i < host.ranks_size(); ++i) {
      lines.push_back({.rank = host.ranks(i), .local_rank = i, .host = &host, .cpus = has_cpus ? host.cpus(i) : 0});
    }
  }
  std::ranges::stable_sort(lines, {}, &TableLine::rank);
  std::string text = "rank\tlocal_rank\thost\taddress\tcpus\n";
  for (const TableLine& line : lines) {
    text += fmt::format("{}\t{}\t{}\t{}\t{}\n", line.rank, line.local_rank, cell(line.host->name()),
                        cell(line.host->address()), line.cpus);
  }
  return text;
}

base::Status RankTable::write(const v1::RankTable& table) {
  const base::Status written = base::write_file_atomically(path_, rank_table_text(table));
  if (!written.ok()) {
    ::unlink(path_.c_str());
    return written.with_context("the table of ranks cannot be written");
  }
  is_written_ = true;
  return base::ok_status();
}

void RankTable::apply(std::vector<SpawnRequest>& requests) const {
  if (!is_written_) return;
  for (SpawnRequest& request : requests) request.env.push_back("MUSTER_RANK_TABLE=" + path_);
}

std::vector<std::string> RankTable::variable_names() const {
  if (!is_written_) return {};
  return {"MUSTER_RANK_TABLE"};
}

}  // namespace muster::agent::job
