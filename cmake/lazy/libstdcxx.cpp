// What the two C++ libraries of the program, toml++ and ada, would fetch out of libstdc++ and never use. They are compiled
// without exceptions: what would be thrown ends the program, as an error of malloc does everywhere. These definitions are
// found before those of libstdc++.a, whose own bring the unwinder, the demangler, streams and locales along (0.42 MB).
#include <bits/functexcept.h>

#include <cstddef>
#include <cstdlib>
#include <ios>
#include <new>

extern "C" [[noreturn]] void abx__no_exceptions(); // exceptions.c

namespace
{

void *allocate(std::size_t size)
{
    void *p = std::malloc(size ? size : 1);
    if (!p)
        std::abort();
    return p;
}

void *allocate(std::size_t size, std::align_val_t align)
{
    void *p = nullptr;
    if (posix_memalign(&p, static_cast<std::size_t>(align), size ? size : 1) != 0)
        std::abort();
    return p;
}

} // namespace

void *operator new(std::size_t size)
{
    return allocate(size);
}

void *operator new[](std::size_t size)
{
    return allocate(size);
}

void *operator new(std::size_t size, std::align_val_t align)
{
    return allocate(size, align);
}

void *operator new[](std::size_t size, std::align_val_t align)
{
    return allocate(size, align);
}

void *operator new(std::size_t size, const std::nothrow_t &) noexcept
{
    return std::malloc(size ? size : 1);
}

void *operator new[](std::size_t size, const std::nothrow_t &) noexcept
{
    return std::malloc(size ? size : 1);
}

void operator delete(void *p) noexcept
{
    std::free(p);
}

void operator delete[](void *p) noexcept
{
    std::free(p);
}

void operator delete(void *p, std::size_t) noexcept
{
    std::free(p);
}

void operator delete[](void *p, std::size_t) noexcept
{
    std::free(p);
}

void operator delete(void *p, std::align_val_t) noexcept
{
    std::free(p);
}

void operator delete[](void *p, std::align_val_t) noexcept
{
    std::free(p);
}

void operator delete(void *p, std::size_t, std::align_val_t) noexcept
{
    std::free(p);
}

void operator delete[](void *p, std::size_t, std::align_val_t) noexcept
{
    std::free(p);
}

namespace std
{

const nothrow_t nothrow{};

// The standard streams are not set up: nothing of the program reads or writes them.
ios_base::Init::Init()
{
}

ios_base::Init::~Init()
{
}

void __throw_bad_exception()
{
    abx__no_exceptions();
}

void __throw_bad_alloc()
{
    abx__no_exceptions();
}

void __throw_bad_array_new_length()
{
    abx__no_exceptions();
}

void __throw_bad_cast()
{
    abx__no_exceptions();
}

void __throw_logic_error(const char *)
{
    abx__no_exceptions();
}

void __throw_length_error(const char *)
{
    abx__no_exceptions();
}

void __throw_out_of_range(const char *)
{
    abx__no_exceptions();
}

void __throw_out_of_range_fmt(const char *, ...)
{
    abx__no_exceptions();
}

void __throw_runtime_error(const char *)
{
    abx__no_exceptions();
}

void __throw_system_error(int)
{
    abx__no_exceptions();
}

} // namespace std
