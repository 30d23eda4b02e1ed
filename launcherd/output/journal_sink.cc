// JournalSink: the first part opens a file and reads what it holds, the second part appends records.
// Read open and read_past first, then write, append and put, then the handling of lost bytes (put_lost, settle_lost).
#include "launcherd/output/journal_sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "launcherd/output/journal_reader.h"

namespace muster::launcherd::inline output {
namespace {

constexpr std::uint64_t kReserveStep = 4 << 20;  // fallocate reserves space in steps of this size
// The sink notifies readers after this many bytes at the latest, even while the hub is too busy to call flush().
constexpr std::uint64_t kPublishStep = 256 * 1024;

// True if the file holds only zero bytes from `begin` on. Some file systems leave such bytes after a power cut.
base::Result<bool> is_zero_from(int fd, std::uint64_t begin) {
  std::array<char, 16 * 1024> block;
  for (;;) {
    const ssize_t got = pread(fd, block.data(), block.size(), static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return base::errno_error(errno, "read");
    if (got == 0) return true;
    if (std::any_of(block.begin(), block.begin() + got, [](char byte) { return byte != '\0'; })) return false;
    begin += static_cast<std::uint64_t>(got);
  }
}

// Appends the file's bytes from `begin` on to the file `to`. Returns their number.
base::Result<std::uint64_t> append_rest(int fd, std::uint64_t begin, const std::string& to) {
  const base::UniqueFd out(::open(to.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!out.valid()) return base::errno_error(errno, "open");
  std::array<char, 16 * 1024> block;
  for (std::uint64_t at = begin;;) {
    const ssize_t got = pread(fd, block.data(), block.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return base::errno_error(errno, "read");
    if (got == 0) return at - begin;
    MUSTER_RETURN_IF_ERROR(base::write_all_blocking(out.get(), block.data(), static_cast<std::size_t>(got)));
    at += static_cast<std::uint64_t>(got);
  }
}

void remember(const JournalRecord& record, JournalPast* past) {
  const JournalHeader& header = record.header;
  if (header.kind == JournalKind::kAttempt) {
    *past = JournalPast();
    past->attempt = static_cast<int>(header.rank);
    return;
  }
  const int agent = static_cast<int>(header.agent);
  if (header.sequence != 0) {
    std::uint64_t& last = past->last_delivered[agent];
    last = std::max(last, header.sequence);
  }
  if (header.kind == JournalKind::kData) past->delivered_bytes[agent] += record.payload.size();
  if (header.kind == JournalKind::kLost || header.kind == JournalKind::kGone) {
    past->delivered_bytes[agent] += decode_lost_bytes(record.payload);
  }
  if (header.kind == JournalKind::kGone) {
    past->gone[std::string(decode_gone_host(record.payload))] += decode_lost_bytes(record.payload);
  }
  if (header.kind == JournalKind::kEndRank) past->ended_ranks.insert(static_cast<int>(header.rank));
  if (header.kind == JournalKind::kEndAgent) past->finished_agents.insert(agent);
}

}  // namespace

base::Result<std::unique_ptr<JournalSink>> JournalSink::open(const std::string& path, const base::Clock* clock,
                                                             OnFlush on_flush) {
  base::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) return base::errno_error(errno, "open " + path);
  struct stat about {};
  if (fstat(fd.get(), &about) != 0) return base::errno_error(errno, "open " + path);
  if (!S_ISREG(about.st_mode)) {
    return base::failed_precondition("{} is not a regular file: cannot store the output of a job there", path);
  }
  std::unique_ptr<JournalSink> sink(new JournalSink(path, std::move(fd), clock, std::move(on_flush)));
  MUSTER_RETURN_IF_ERROR(sink->read_past());
  sink->published_ = sink->size_;
  if (sink->on_flush_) sink->on_flush_(sink->size_);
  return sink;
}

base::Status JournalSink::read_past() {
  JournalReader reader(fd_.get(), path_);
  for (;;) {
    const auto record = reader.next();
    if (!record.ok()) {
      const auto is_zero = is_zero_from(fd_.get(), reader.position());
      if (!is_zero.ok() || !*is_zero) move_damage(reader.position(), record.status());
      break;
    }
    if (!record->has_value()) break;
    remember(**record, &past_);
  }
  size_ = past_.bytes = reserved_ = reader.position();
  is_open_ = true;
  return cut_off();
}

// Never fails, because the job must continue without what its journal has lost. Drops bytes that cannot be moved.
void JournalSink::move_damage(std::uint64_t begin, const base::Status& why) {
  const std::string apart = path_ + ".damaged";
  const auto moved = append_rest(fd_.get(), begin, apart);
  past_.damage = moved.ok() ? fmt::format("{}: {} bytes from there on were moved to {}", why.message(), *moved, apart)
                            : fmt::format("{}: the rest is dropped, because it cannot be copied to {} ({})",
                                          why.message(), apart, moved.status().message());
}

JournalSink::~JournalSink() {
  if (!is_open_) return;
  (void)settle_lost();
  // cut_off() also frees the reserved space. If it fails, an incomplete record stays, and open() removes that record.
  (void)cut_off();
  lost_.clear();
  publish_size();
}

JournalHeader JournalSink::header(JournalKind kind, int rank) const {
  JournalHeader header;
  header.kind = kind;
  header.rank = static_cast<std::uint32_t>(rank);
  header.agent = static_cast<std::uint32_t>(agent_);
  header.sequence = sequence_;
  header.time_us = std::chrono::duration_cast<std::chrono::microseconds>(clock_->wall().time_since_epoch()).count();
  return header;
}

// Cuts off everything behind the last whole record.
base::Status JournalSink::cut_off() {
  has_torn_end_ = ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0;
  if (has_torn_end_) return base::errno_error(errno, "truncate " + path_);
  reserved_ = size_;
  return base::ok_status();
}

// Returns 0, or the errno that says why the file cannot grow up to `end`.
int JournalSink::allocate(std::uint64_t end) {
  while (fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(size_), static_cast<off_t>(end - size_)) != 0) {
    if (errno != EINTR) return errno;
  }
  reserved_ = end;
  return 0;
}

// Reserves space for `size` more bytes and for kReserve behind them. If the file system cannot reserve space, it
// assumes that there is enough.
base::Status JournalSink::reserve_space(std::uint64_t size) {
  const std::uint64_t needed = size_ + size + kReserve;
  if (!can_reserve_ || reserved_ >= needed) return base::ok_status();
  int problem = allocate(needed + kReserveStep);
  if (problem != 0) problem = allocate(needed);
  can_reserve_ = problem != EOPNOTSUPP && problem != ENOSYS;
  return problem == 0 || !can_reserve_ ? base::ok_status() : base::errno_error(problem, "write " + path_);
}

// Writes the whole record at offset `at`. After an error the file may hold the beginning of the record.
base::Status JournalSink::put(const JournalHeader& header, std::string_view payload, std::uint64_t at) {
  auto front = encode_journal_header(header);
  auto back = encode_journal_trailer(header);
  std::array<iovec, 3> parts{
      {{front.data(), front.size()}, {const_cast<char*>(payload.data()), payload.size()}, {back.data(), back.size()}}};
  std::size_t part = 0;
  while (part < parts.size()) {
    ssize_t wrote = pwritev(fd_.get(), &parts[part], static_cast<int>(parts.size() - part), static_cast<off_t>(at));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return base::errno_error(errno == EFBIG ? ENOSPC : errno, "write " + path_);
    at += static_cast<std::uint64_t>(wrote);
    for (auto left = static_cast<std::size_t>(wrote); part < parts.size(); ++part) {
      iovec& now = parts[part];
      const std::size_t used = std::min(left, now.iov_len);
      now.iov_base = static_cast<char*>(now.iov_base) + used;
      now.iov_len -= used;
      left -= used;
      if (now.iov_len != 0) break;
    }
  }
  return base::ok_status();
}

base::Status JournalSink::append(JournalHeader header, std::string_view payload) {
  if (has_torn_end_) MUSTER_RETURN_IF_ERROR(cut_off());
  header.length = static_cast<std::uint32_t>(payload.size());
  const base::Status status = put(header, payload, size_);
  if (!status.ok()) {
    (void)cut_off();  // has_torn_end_ remembers a failure
    return status;
  }
  size_ += journal_record_size(payload.size());
  return base::ok_status();
}

base::Status JournalSink::once(base::Status failure) {
  if (std::exchange(has_reported_failure_, true)) return base::ok_status();
  return failure.with_context("the output of the job is not stored until the disk has room again");
}

// Writes or updates the record that says how many bytes of an agent are missing.
base::Status JournalSink::put_lost(int agent, Lost* lost) {
  JournalHeader record = header(JournalKind::kLost, 0);
  record.agent = static_cast<std::uint32_t>(agent);
  record.sequence = lost->sequence;
  const auto payload = encode_lost_bytes(lost->bytes);
  const std::string_view text(payload.data(), payload.size());
  record.length = static_cast<std::uint32_t>(text.size());
  if (lost->at) return put(record, text, *lost->at);  // update it in place, because readers do not read there yet
  const std::uint64_t at = size_;
  MUSTER_RETURN_IF_ERROR(append(record, text));
  lost->at = at;
  return base::ok_status();
}

// Writes pending kLost records. Call it before the sink stores lines again.
base::Status JournalSink::settle_lost() {
  for (auto& [agent, lost] : lost_) {
    if (!lost.at) MUSTER_RETURN_IF_ERROR(put_lost(agent, &lost));
  }
  return base::ok_status();
}

base::Status JournalSink::write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) {
  JournalHeader record = header(JournalKind::kData, rank);
  record.stream = stream;
  record.flags = flags;
  base::Status status = reserve_space(journal_record_size(bytes.size()));
  if (status.ok()) status = settle_lost();
  if (status.ok()) status = append(record, bytes);
  if (status.ok()) {
    lost_.clear();
    if (size_ - published_ >= kPublishStep) publish_size();
    return status;
  }
  Lost& lost = lost_[agent_];
  lost.bytes += bytes.size();
  lost.sequence = sequence_;
  (void)put_lost(agent_, &lost);  // settle_lost() tries again if there is no room now
  return once(std::move(status));
}

base::Status JournalSink::end_rank(int rank) {
  base::Status status = append(header(JournalKind::kEndRank, rank), {});
  return status.ok() ? status : once(std::move(status));
}

// If the kGone record cannot be written, counts its bytes as missing, so that a later kLost record includes them.
base::Status JournalSink::lost(std::uint64_t bytes, const std::string& host) {
  base::Status status = append(header(JournalKind::kGone, 0), encode_gone(bytes, host));
  if (status.ok()) return status;
  Lost& lost = lost_[agent_];
  lost.bytes += bytes;
  lost.sequence = sequence_;
  return once(std::move(status));
}

base::Status JournalSink::end_agent(int agent) {
  JournalHeader record = header(JournalKind::kEndAgent, 0);
  record.agent = static_cast<std::uint32_t>(agent);
  base::Status status = append(record, {});
  return status.ok() ? status : once(std::move(status));
}

void JournalSink::begin_attempt(int attempt) {
  agent_ = 0;
  sequence_ = 0;
  lost_.clear();
  (void)reserve_space(0);  // fails on a full disk; the record below then uses the remaining room
  (void)append(header(JournalKind::kAttempt, attempt), {});
}

void JournalSink::frame(int agent, std::uint64_t sequence) {
  agent_ = agent;
  sequence_ = sequence;
}

base::Status JournalSink::flush() {
  publish_size();
  return base::ok_status();
}

// Readers must not read beyond a record that may still change.
void JournalSink::publish_size() {
  std::uint64_t readable = size_;
  for (const auto& [agent, lost] : lost_) readable = std::min(readable, lost.at.value_or(size_));
  if (std::exchange(published_, readable) != readable && on_flush_) on_flush_(readable);
}

}  // namespace muster::launcherd::output
