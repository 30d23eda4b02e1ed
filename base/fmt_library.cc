// Compiles once the functions that fmt's headers declare. With FMT_HEADER_ONLY every file would compile them again,
// which takes longer than the file itself. Debian has fmt only as a shared library. The agent is static, and libmuster
// is loaded into users' programs, so both contain a copy of these functions.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

// fmt's headers declare these templates and leave their definitions to its library.
template dragonbox::decimal_fp<float> dragonbox::to_decimal(float) noexcept;
template dragonbox::decimal_fp<double> dragonbox::to_decimal(double) noexcept;
template locale_ref::locale_ref(const std::locale&);
template std::locale locale_ref::get<std::locale>() const;
template thousands_sep_result<char> thousands_sep_impl(locale_ref);
template char decimal_point_impl(locale_ref);
template void buffer<char>::append(const char*, const char*);
template void vformat_to(buffer<char>&, string_view, format_args, locale_ref);

}  // namespace detail
FMT_END_NAMESPACE
