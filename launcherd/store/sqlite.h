// The only code that uses SQLite. It wraps a connection and its prepared statements as move-only values, and errors as
// Status.
//
// Thread: one thread at a time uses a connection and its statements.
// Errors:
//   RESOURCE_EXHAUSTED  the disk is full or read-only, or memory is short; a later try may work
//   ALREADY_EXISTS      a unique value exists already
//   DATA_LOSS           the file is not a database, or is damaged
//   UNAVAILABLE         the database is busy, or the disk failed
//   INTERNAL            one of our statements has a bug
//
// Example:
//   Execution find = statement.start();
//   find.bind(1, id);
//   MUSTER_ASSIGN_OR_RETURN(const bool found, find.next());
//   if (found) use(find.text(0));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace muster::launcherd::inline store {

class Database;

// One run of a statement. The destructor resets the statement and clears its values. The statement must outlive it.
class Execution {
 public:
  explicit Execution(sqlite3_stmt* statement) : statement_(statement) {}
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // Parameters count from 1. Bytes are copied. next() or run() reports values that cannot be bound.
  void bind(int index, std::int64_t value);
  void bind(int index, std::string_view text);
  void bind_blob(int index, std::string_view bytes);
  void bind(int index, std::optional<std::int64_t> value);  // nullopt means NULL, as for an unbound parameter

  base::Result<bool> next();  // true if a row is available
  base::Status run();         // runs to the end; skips rows

  // Columns of the current row, counted from 0.
  std::int64_t integer(int column) const;
  std::optional<std::int64_t> maybe_integer(int column) const;
  std::string bytes(int column) const;

 private:
  void note(int code);

  sqlite3_stmt* statement_;
  int bind_failure_ = 0;
};

class Statement {
 public:
  Statement() = default;  // empty; must not be started
  Execution start() const { return Execution(statement_.get()); }

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class Database {
 public:
  enum class Access { kWrite, kRead };

  // The file must exist; an empty file is an empty database. Destroy all statements before the connection.
  static base::Result<Database> open(const std::string& path, Access access);

  base::Result<Statement> prepare(std::string_view sql);
  base::Status run(const std::string& sql);                    // one or more statements without values
  base::Result<std::string> value_of(const std::string& sql);  // first column of the first row; empty if none
  std::int64_t last_row() const;                               // row number of the last insert
  std::int64_t changed_rows() const;                           // number of rows that the last statement changed
  bool in_transaction() const;
  // Writes the write-ahead log into the file and empties the log. Does not wait. Returns false if a reader uses the
  // log; try later.
  base::Result<bool> empty_log();
  // Sets whether closing may write the log into the file. Use false while the file is only inspected.
  void write_back_on_close(bool on);

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  explicit Database(sqlite3* handle) : handle_(handle) {}

  std::unique_ptr<sqlite3, Close> handle_;
};

}  // namespace muster::launcherd::store
