# Mills' ratio as the code computes it errs by at most 6 units of 2^-53 (special.md, section 1).
# cpp/include/tightdp/special/mills.hpp: for (int i = N - 2; i >= 0; --i) sum = sum * y + p.c[i];
# cpp/include/tightdp/special/mills.hpp: return horner(p, (x - kMillsCenter) / (x + kMillsCenter)) / (1 + x);
@rnd = float<ieee_64, ne>;
x = rnd(x_);
c = @constant, cpp/include/tightdp/special/mills.hpp, kMillsCenter@;
a = rnd(x - c);
b = rnd(x + c);
q = a / b;
y = rnd(q);
Y = 1 - 2 * c / (x + c);
@steps, cpp/include/tightdp/special/mills.hpp, kMillsRatio, p, y, Y@
d = rnd(1 + x);
D = 1 + x;
r = rnd(p0 / d);
Q = P0 / D;  # differs from the true R by the error of the polynomial (mills.sollya)
{ x in [0, 1b499] ->
@products, cpp/include/tightdp/special/mills.hpp, kMillsRatio, p, y@
Q -/ R in [-1b-54, 1b-54] ->
r -/ R in [-6b-53, 6b-53] }
y - Y -> (y - q) + (q - Y);
q - Y -> ((a - (x - c)) - Y * (b - (x + c))) / b { b <> 0, x + c <> 0 };
q - Y -> Y * ((1 + (a - (x - c)) / (x - c)) / (1 + (b - (x + c)) / (x + c)) - 1) { x - c <> 0, x + c <> 0, b <> 0 };
$ x in (0.03125, 0.125, 0.5, 1, 2, 4, 8, 16, 64, 1024);
