#include "agent/stacks/loaded_elf.h"

#include <elf.h>

#include <string>

namespace muster::agent::inline stacks {
namespace {

constexpr int kMaxSegments = 64;
constexpr std::uint64_t kMaxDynamicEntries = 256;
constexpr std::uint32_t kMaxBuckets = 1u << 20;
constexpr int kMaxChain = 10'000;

std::uint32_t gnu_hash_of(std::string_view symbol) {
  std::uint32_t hash = 5381;
  for (const char c : symbol) hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

std::uint32_t hash_of(std::string_view symbol) {
  std::uint32_t hash = 0;
  for (const char c : symbol) {
    hash = (hash << 4) + static_cast<unsigned char>(c);
    const std::uint32_t high = hash & 0xf0000000;
    hash = (hash ^ high >> 24) & ~high;
  }
  return hash;
}

bool is_supported(const Elf64_Ehdr& header) {
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_ident[EI_DATA] == ELFDATA2LSB && header.e_phentsize == sizeof(Elf64_Phdr) &&
         header.e_phnum <= kMaxSegments;
}

}  // namespace

std::optional<LoadedElf> LoadedElf::open(PageCache& memory, std::uint64_t start) {
  const auto header = memory.get<Elf64_Ehdr>(start);
  if (!header || !is_supported(*header)) return std::nullopt;
  LoadedElf elf;
  bool has_load = false;
  std::optional<std::uint64_t> dynamic;
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = memory.get<Elf64_Phdr>(start + header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment) return std::nullopt;
    if (segment->p_type == PT_LOAD && segment->p_offset == 0 && !has_load) {
      has_load = true;
      elf.bias_ = start - segment->p_vaddr;
    }
    if (segment->p_type == PT_DYNAMIC) dynamic = segment->p_vaddr;
  }
  if (!has_load || !dynamic) return std::nullopt;
  // The loader of glibc turns addresses in this section into absolute ones; that of musl does not.
  const auto absolute = [&](std::uint64_t value) { return value < start ? value + elf.bias_ : value; };
  for (std::uint64_t i = 0; i < kMaxDynamicEntries; ++i) {
    const auto entry = memory.get<Elf64_Dyn>(elf.bias_ + *dynamic + i * sizeof(Elf64_Dyn));
    if (!entry) return std::nullopt;
    if (entry->d_tag == DT_NULL) break;
    if (entry->d_tag == DT_SYMTAB) elf.symbols_ = absolute(entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) elf.strings_ = absolute(entry->d_un.d_ptr);
    if (entry->d_tag == DT_GNU_HASH) elf.gnu_hash_ = absolute(entry->d_un.d_ptr);
    if (entry->d_tag == DT_HASH) elf.hash_ = absolute(entry->d_un.d_ptr);
  }
  if (elf.symbols_ == 0 || elf.strings_ == 0 || (elf.gnu_hash_ == 0 && elf.hash_ == 0)) return std::nullopt;
  return elf;
}

std::optional<std::uint64_t> LoadedElf::find(PageCache& memory, std::string_view symbol) const {
  return gnu_hash_ != 0 ? find_by_gnu_hash(memory, symbol) : find_by_hash(memory, symbol);
}

std::optional<std::uint64_t> LoadedElf::find_by_gnu_hash(PageCache& memory, std::string_view symbol) const {
  struct Header {
    std::uint32_t buckets, first, bloom_words, bloom_shift;
  };
  const auto header = memory.get<Header>(gnu_hash_);
  if (!header || header->buckets == 0 || header->buckets > kMaxBuckets) return std::nullopt;
  const std::uint32_t hash = gnu_hash_of(symbol);
  const std::uint64_t buckets = gnu_hash_ + sizeof(Header) + std::uint64_t{header->bloom_words} * 8;
  const std::uint64_t chains = buckets + std::uint64_t{header->buckets} * 4;
  const auto begin = memory.get<std::uint32_t>(buckets + std::uint64_t{hash % header->buckets} * 4);
  if (!begin || *begin < header->first) return std::nullopt;
  for (std::uint64_t index = *begin; index < *begin + std::uint64_t{kMaxChain}; ++index) {
    const auto entry = memory.get<std::uint32_t>(chains + (index - header->first) * 4);
    if (!entry) return std::nullopt;
    if ((*entry | 1) == (hash | 1)) {
      if (const auto value = value_if_named(memory, index, symbol)) return value;
    }
    if ((*entry & 1) != 0) return std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> LoadedElf::find_by_hash(PageCache& memory, std::string_view symbol) const {
  const auto count = memory.get<std::uint32_t>(hash_);
  if (!count || *count == 0 || *count > kMaxBuckets) return std::nullopt;
  auto index = memory.get<std::uint32_t>(hash_ + 8 + std::uint64_t{hash_of(symbol) % *count} * 4);
  for (int i = 0; i < kMaxChain && index && *index != 0; ++i) {
    if (const auto value = value_if_named(memory, *index, symbol)) return value;
    index = memory.get<std::uint32_t>(hash_ + 8 + (std::uint64_t{*count} + *index) * 4);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> LoadedElf::value_if_named(PageCache& memory, std::uint64_t index,
                                                       std::string_view symbol) const {
  const auto entry = memory.get<Elf64_Sym>(symbols_ + index * sizeof(Elf64_Sym));
  if (!entry || entry->st_shndx == SHN_UNDEF) return std::nullopt;
  std::string name(symbol.size() + 1, '?');
  if (!memory.read(strings_ + entry->st_name, std::as_writable_bytes(std::span(name)))) return std::nullopt;
  if (name.back() != '\0' || std::string_view(name).substr(0, symbol.size()) != symbol) return std::nullopt;
  return entry->st_value + bias_;
}

}  // namespace muster::agent::stacks
