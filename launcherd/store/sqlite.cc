// The wrapper of SQLite: error mapping first, then Execution, Statement and Database.
// Read Database::open first, then Execution::next and run, then the error mapping.
#include "launcherd/store/sqlite.h"

#include <sqlite3.h>

#include <cerrno>
#include <cstring>

namespace muster::launcherd::inline store {
namespace {

// How long a writer waits for a reader that recovers the log, and vice versa. No other process uses the file.
constexpr int kBusyMilliseconds = 2000;

// Recognises a failed write by SQLite's extended code. errno does not help, because SQLite may have rolled back since.
bool is_of_writing(int extended) {
  switch (extended) {
    case SQLITE_IOERR_WRITE:
    case SQLITE_IOERR_FSYNC:
    case SQLITE_IOERR_DIR_FSYNC:
    case SQLITE_IOERR_TRUNCATE:
    case SQLITE_IOERR_SHMSIZE:
    case SQLITE_IOERR_DELETE:
      return true;
    default:
      return false;
  }
}

bool is_lack_of_room(int system_error) {
  return system_error == ENOSPC || system_error == EDQUOT || system_error == EROFS || system_error == EFBIG;
}

base::Status disk_failure(int extended, int system_error, const std::string& path) {
  const int code = extended & 0xff;
  if (code == SQLITE_FULL) {
    return base::resource_exhausted("{}: disk full; free some space", path);
  }
  if (code == SQLITE_READONLY) {
    return base::resource_exhausted("{}: not writable; make its directory and disk writable", path);
  }
  const char* const why = system_error != 0 ? std::strerror(system_error) : "no reason given";
  if (is_lack_of_room(system_error)) return base::resource_exhausted("{}: write: {}", path, why);
  if (is_of_writing(extended)) {
    return base::resource_exhausted("{}: a write failed ({}); check its disk", path, why);
  }
  return base::unavailable("{}: input or output failed ({}, code {}); check its disk", path, why, extended);
}

base::Status status_of(sqlite3* handle, int result) {
  const char* const name = handle != nullptr ? sqlite3_db_filename(handle, "main") : nullptr;
  const std::string path = name != nullptr ? name : "the job store";
  const int extended = handle != nullptr ? sqlite3_extended_errcode(handle) : result;
  const char* const message = handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(result);
  switch (result & 0xff) {
    case SQLITE_FULL:
    case SQLITE_READONLY:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
      return disk_failure(handle != nullptr ? extended : result, handle != nullptr ? sqlite3_system_errno(handle) : 0,
                          path);
    case SQLITE_NOMEM:
      return base::resource_exhausted("{}: out of memory", path);
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return base::data_loss(
          "{} is damaged ({}) and was left as it is: restore a copy of it, or move it away to begin with "
          "an empty one",
          path, message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:  // readers and writers blocked each other for too long
      return base::unavailable("{} is locked by another process; end that process", path);
    case SQLITE_TOOBIG:
      return base::invalid_argument("{}: a value is too long", path);
    case SQLITE_CONSTRAINT:
      if (extended == SQLITE_CONSTRAINT_UNIQUE || extended == SQLITE_CONSTRAINT_PRIMARYKEY) {
        return base::already_exists("{}: {}", path, message);
      }
      [[fallthrough]];
    default:
      return base::internal_error("{}: {}", path, message);
  }
}

base::Status status_of(sqlite3_stmt* statement, int result) {
  return status_of(sqlite3_db_handle(statement), result);
}

}  // namespace

Execution::~Execution() {
  sqlite3_reset(statement_);  // returns the last step's error again
  sqlite3_clear_bindings(statement_);
}

void Execution::note(int code) {
  if (code != SQLITE_OK && bind_failure_ == SQLITE_OK) bind_failure_ = code;
}

void Execution::bind(int index, std::int64_t value) {
  note(sqlite3_bind_int64(statement_, index, value));
}

void Execution::bind(int index, std::string_view text) {
  const char* const data = text.data() != nullptr ? text.data() : "";  // a null pointer would bind NULL
  note(sqlite3_bind_text64(statement_, index, data, text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Execution::bind_blob(int index, std::string_view bytes) {
  const char* const data = bytes.data() != nullptr ? bytes.data() : "";
  note(sqlite3_bind_blob64(statement_, index, data, bytes.size(), SQLITE_TRANSIENT));
}

void Execution::bind(int index, std::optional<std::int64_t> value) {
  if (value) bind(index, *value);
}

base::Result<bool> Execution::next() {
  if (bind_failure_ != SQLITE_OK) return status_of(statement_, bind_failure_);
  const int result = sqlite3_step(statement_);
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  return status_of(statement_, result);
}

base::Status Execution::run() {
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, next());
    if (!more) return base::ok_status();
  }
}

std::int64_t Execution::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::optional<std::int64_t> Execution::maybe_integer(int column) const {
  if (sqlite3_column_type(statement_, column) == SQLITE_NULL) return std::nullopt;
  return integer(column);
}

std::string Execution::bytes(int column) const {
  // Read the data before the size, because reading the data may convert the value and change its size.
  const void* const data = sqlite3_column_blob(statement_, column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
  return data != nullptr ? std::string(static_cast<const char*>(data), size) : std::string();
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

void Database::Close::operator()(sqlite3* handle) const {
  sqlite3_close_v2(handle);
}

base::Result<Database> Database::open(const std::string& path, Access access) {
  // One thread at a time uses a connection, so turn off SQLite's own locks.
  const int flags = (access == Access::kWrite ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) | SQLITE_OPEN_NOMUTEX |
                    SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE;
  sqlite3* handle = nullptr;
  const int result = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  Database database(handle);
  if (result != SQLITE_OK) return status_of(handle, result).with_context("open the job store");
  sqlite3_busy_timeout(handle, kBusyMilliseconds);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  return database;
}

base::Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int result = sqlite3_prepare_v3(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (result != SQLITE_OK) return status_of(handle_.get(), result);
  return Statement(statement);
}

base::Status Database::run(const std::string& sql) {
  const int result = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  return result == SQLITE_OK ? base::ok_status() : status_of(handle_.get(), result);
}

base::Result<std::string> Database::value_of(const std::string& sql) {
  MUSTER_ASSIGN_OR_RETURN(const Statement statement, prepare(sql));
  Execution execution = statement.start();
  MUSTER_ASSIGN_OR_RETURN(const bool found, execution.next());
  return found ? execution.bytes(0) : std::string();
}

std::int64_t Database::last_row() const {
  return sqlite3_last_insert_rowid(handle_.get());
}

std::int64_t Database::changed_rows() const {
  return sqlite3_changes64(handle_.get());
}

bool Database::in_transaction() const {
  return sqlite3_get_autocommit(handle_.get()) == 0;
}

base::Result<bool> Database::empty_log() {
  sqlite3_busy_timeout(handle_.get(), 0);
  const int result = sqlite3_wal_checkpoint_v2(handle_.get(), "main", SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  sqlite3_busy_timeout(handle_.get(), kBusyMilliseconds);
  if (result == SQLITE_OK) return true;
  if ((result & 0xff) == SQLITE_BUSY || (result & 0xff) == SQLITE_LOCKED) return false;
  return status_of(handle_.get(), result);
}

void Database::write_back_on_close(bool on) {
  sqlite3_db_config(handle_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, on ? 0 : 1, nullptr);
}

}  // namespace muster::launcherd::store
