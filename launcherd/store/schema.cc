// The job store's tables (the migrations), and open_store(), which creates, checks and migrates a file.
// Read open_store at the end first, then checked_version, then the tables.
#include "launcherd/store/schema.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>

#include "base/strings.h"
#include "base/unique_fd.h"

namespace muster::launcherd::inline store {
namespace {

constexpr long kApplication = 0x4d737472;  // "Mstr", in the header of the file

// Times are wall-clock microseconds. A job is final if and only if it has ended_us. The tables environments and
// recoveries hold secrets. No query for views reads them (docs/adr/0011).
constexpr std::string_view kVersion1 = R"sql(
  CREATE TABLE jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    request_id TEXT UNIQUE,
    name TEXT NOT NULL,
    priority INTEGER NOT NULL,
    state INTEGER NOT NULL,
    reason TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    exit_code INTEGER,
    submitted_us INTEGER NOT NULL,
    started_us INTEGER,
    ended_us INTEGER,
    last_sequence INTEGER NOT NULL DEFAULT 0);
  CREATE INDEX open_jobs ON jobs (number) WHERE ended_us IS NULL;
  CREATE INDEX ended_jobs ON jobs (ended_us) WHERE ended_us IS NOT NULL;
  CREATE TABLE specs (job INTEGER PRIMARY KEY REFERENCES jobs (number) ON DELETE CASCADE, content BLOB NOT NULL);
  CREATE TABLE environments (job INTEGER PRIMARY KEY REFERENCES jobs (number) ON DELETE CASCADE, content BLOB NOT NULL);
  CREATE TABLE recoveries (job INTEGER PRIMARY KEY REFERENCES jobs (number) ON DELETE CASCADE, content BLOB NOT NULL);
  CREATE TABLE ranks (
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    state INTEGER NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    exit_code INTEGER NOT NULL,
    signal INTEGER NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (job, attempt, rank)) WITHOUT ROWID;
  CREATE TABLE hosts (
    name TEXT PRIMARY KEY,
    slots INTEGER NOT NULL,
    drained INTEGER NOT NULL,
    reason TEXT NOT NULL,
    changed_us INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE events (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    sequence INTEGER NOT NULL,
    time_us INTEGER NOT NULL,
    job_state INTEGER,
    message BLOB NOT NULL,
    UNIQUE (job, sequence));
)sql";

// held_by is NULL for a job that may start. Jobs of older launcherds have no user.
constexpr std::string_view kVersion2 = R"sql(
  ALTER TABLE jobs ADD COLUMN user TEXT NOT NULL DEFAULT '';
  ALTER TABLE jobs ADD COLUMN held_by TEXT;
)sql";

// A row with more than one event has their messages as in event_group.h. Its sequence is that of the last one.
constexpr std::string_view kVersion3 = R"sql(
  ALTER TABLE events ADD COLUMN count INTEGER NOT NULL DEFAULT 1;
)sql";

// An element of an array has a row once it starts; `array` is the number of its array. No element has two rows.
// A row of dependencies means that the job still waits for the other one, whose row may be gone. A row of notifications
// means that the job's command has not run yet.
constexpr std::string_view kVersion4 = R"sql(
  ALTER TABLE jobs ADD COLUMN array INTEGER REFERENCES jobs (number) ON DELETE CASCADE;
  ALTER TABLE jobs ADD COLUMN array_index INTEGER;
  CREATE UNIQUE INDEX elements ON jobs (array, array_index) WHERE array IS NOT NULL;
  CREATE INDEX listed_jobs ON jobs (number) WHERE array IS NULL;
  CREATE INDEX listed_open_jobs ON jobs (number) WHERE ended_us IS NULL AND array IS NULL;
  CREATE TABLE dependencies (
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    awaited TEXT NOT NULL,
    condition INTEGER NOT NULL,
    PRIMARY KEY (job, awaited)) WITHOUT ROWID;
  CREATE TABLE notifications (job INTEGER PRIMARY KEY REFERENCES jobs (number) ON DELETE CASCADE);
)sql";

constexpr std::array kMigrations = {kVersion1, kVersion2, kVersion3, kVersion4};

base::Status make_file(const std::string& path) {
  const base::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return base::errno_error(errno, fmt::format("open {}", path));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return base::errno_error(errno, fmt::format("look at {}", path));
  if (!S_ISREG(info.st_mode) || (info.st_mode & 077) != 0) {
    return base::permission_denied("{} must be a file that only its owner may read: run chmod 600 on it", path);
  }
  return base::ok_status();
}

base::Result<long> pragma(Database& database, const std::string& name) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, database.value_of("PRAGMA " + name));
  return base::parse_decimal(text, 1L << 40).value_or(0);
}

base::Status check_whole(Database& database, const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const std::string verdict, database.value_of("PRAGMA quick_check(1)"));
  if (verdict == "ok") return base::ok_status();
  return base::data_loss(
      "{} is damaged ({}) and was left as it is: restore a copy of it, or move it away to begin with an "
      "empty one",
      path, base::printable(verdict));
}

// Returns the version of the file; 0 for an empty file.
base::Result<std::size_t> checked_version(Database& database, const std::string& path, std::size_t newest) {
  MUSTER_ASSIGN_OR_RETURN(const long application, pragma(database, "application_id"));
  MUSTER_ASSIGN_OR_RETURN(const std::string tables, database.value_of("SELECT count(*) FROM sqlite_master"));
  if (application != kApplication && !(application == 0 && tables == "0")) {
    return base::failed_precondition("{} is a database of another program: choose another --state DIR", path);
  }
  MUSTER_ASSIGN_OR_RETURN(const long version, pragma(database, "user_version"));
  if (version > static_cast<long>(newest)) {
    return base::failed_precondition(
        "{} was written by a newer launcherd (schema version {}; this launcherd supports {}): start the newer one",
        path, version, newest);
  }
  MUSTER_RETURN_IF_ERROR(check_whole(database, path));
  return static_cast<std::size_t>(version);
}

base::Status migrate(Database& database, std::size_t version, std::span<const std::string_view> migrations) {
  if (version == migrations.size()) return base::ok_status();
  std::string script = "BEGIN IMMEDIATE;";
  for (const std::string_view each : migrations.subspan(version)) script.append(each).append(";");
  script +=
      fmt::format("PRAGMA user_version = {}; PRAGMA application_id = {}; COMMIT", migrations.size(), kApplication);
  const base::Status status = database.run(script);
  if (!status.ok() && database.in_transaction()) {
    MUSTER_RETURN_IF_ERROR(database.run("ROLLBACK").with_context(status.message()));
  }
  return status.with_context(fmt::format("upgrade the job store from version {} to {}", version, migrations.size()));
}

}  // namespace

std::span<const std::string_view> store_migrations() {
  return kMigrations;
}

base::Result<Database> open_store(const std::string& path, std::span<const std::string_view> migrations) {
  MUSTER_RETURN_IF_ERROR(make_file(path));
  MUSTER_ASSIGN_OR_RETURN(Database database, Database::open(path, Database::Access::kWrite));
  database.write_back_on_close(false);
  MUSTER_ASSIGN_OR_RETURN(const std::size_t version, checked_version(database, path, migrations.size()));
  MUSTER_ASSIGN_OR_RETURN(const std::string mode, database.value_of("PRAGMA journal_mode = WAL"));
  if (mode != "wal") {
    return base::failed_precondition(
        "{}: its file system cannot hold a write-ahead log: choose a --state DIR on a local disk", path);
  }
  // FULL: a commit is on the disk before the caller gets its result. secure_delete: SQLite overwrites secrets of ended
  // jobs.
  MUSTER_RETURN_IF_ERROR(
      database.run("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON;"
                   "PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = 16777216"));
  MUSTER_RETURN_IF_ERROR(migrate(database, version, migrations));
  database.write_back_on_close(true);
  return database;
}

}  // namespace muster::launcherd::store
